#include "client/lib/leases/reserved_ids.h"

#include "common/log/log.h"
#include "common/proto/inode.pb.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kReserveInodes{"client.reserve_inodes"};

}  // namespace

std::optional<uint64_t> ReservedIds::take() {
  std::optional<uint64_t> taken;
  if (!ranges_.empty()) {
    auto& [from, count] = ranges_.front();
    taken = from++;
    if (--count == 0) ranges_.pop_front();
  }
  // The metaserver remembers a few ranges only: one is used and one is the next.
  const bool few = ranges_.empty() || (ranges_.size() == 1 && ranges_.front().second < kAtOnce / 2);
  if (few && !tasks_.stopping() && !std::exchange(reserving_, true)) tasks_.spawn(reserve());
  return taken;
}

void ReservedIds::prepare() {
  if (ranges_.empty() && !std::exchange(reserving_, true)) tasks_.spawn(reserve());
}

asio::awaitable<void> ReservedIds::reserve() {
  const sight::BackgroundTask task(resources_.context(), kReserveInodes);
  proto::ReserveInodesRequest request;
  request.set_session(session_);
  request.set_count(kAtOnce);
  proto::ReserveInodesResponse reserved;
  const Status status = co_await calls_.call(task.context(), rpc::Method::kReserveInodes, request, reserved);
  reserving_ = false;
  if (!status.ok()) {
    log::debug("no ids are reserved: {}", status.to_string());
  } else if (reserved.count() > 0) {
    ranges_.emplace_back(reserved.first(), reserved.count());
  }
}

}  // namespace kintsugi::client
