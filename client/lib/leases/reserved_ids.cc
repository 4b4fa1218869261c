#include "client/lib/leases/reserved_ids.h"

#include "client/lib/leases/repeated_calls.h"
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
  if (few) want();
  return taken;
}

void ReservedIds::prepare() {
  if (ranges_.empty()) want();
}

void ReservedIds::want() {
  if (!tasks_.stopping() && !std::exchange(reserving_, true)) tasks_.spawn(reserve());
}

asio::awaitable<void> ReservedIds::reserve() {
  const sight::BackgroundTask task(resources_.context(), kReserveInodes);
  proto::ReserveInodesRequest request;
  request.set_session(session_);
  request.set_count(kAtOnce);
  proto::ReserveInodesResponse reserved;
  Status status;
  // Calls without an answer may have reserved so many that the metaserver forgets those ids next.
  if (unanswered_) status = co_await unsent_.flush(task.context());
  if (status.ok())
    status = co_await resources_.meta.call_once(task.context(), rpc::Method::kReserveInodes, request,
                                                reserved, MetaLink::kCallLimit);
  reserving_ = false;
  unanswered_ = is_without_answer(status);
  if (unanswered_) ranges_.clear();
  if (!status.ok()) {
    log::debug("no ids are reserved: {}", status.to_string());
  } else if (reserved.count() > 0) {
    ranges_.emplace_back(reserved.first(), reserved.count());
  }
}

}  // namespace kintsugi::client
