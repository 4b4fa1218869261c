#include "repair_manager/compaction/compactor.h"

#include <algorithm>
#include <utility>

#include "client/lib/io.h"
#include "client/lib/read/range_read.h"
#include "client/lib/write/packed_extents.h"
#include "client/lib/write/striped_writer.h"
#include "client/lib/write/upload.h"
#include "common/log/log.h"
#include "common/proto/inode.pb.h"
#include "monitoring/sight/module.h"

namespace kintsugi::repair_manager {
namespace {

using client::LocatedExtent;

constexpr sight::Site kCompact{"repair_manager.compact", {}, {"bytes", "extents"}};
constexpr sight::Site kLookAtFile{"repair_manager.look_at_file"};
constexpr sight::Site kMove{"repair_manager.move_bytes", {"bytes", "extents"}};

constexpr uint64_t kReadBytes = 4 << 20;  ///< one read takes so many bytes
/// The time from the first look to the new place.
constexpr Duration kWindowLimit = std::chrono::minutes(10);

client::Options with_memory(client::Options options) {
  options.memory_bytes = Compactor::kMemoryBytes;
  return options;
}

void put_extent(const LocatedExtent& extent, proto::Extent& into) {
  into.set_file_offset(extent.offset);
  into.set_length(extent.length);
  into.set_stripe_id(extent.stripe->stripe.stripe_id());
  into.set_stripe_offset(extent.stripe_offset);
}

/// The bytes of `moved`, which lie one after the other in `packed`, get new places; the rest of the window stays where
/// it is.
void put_places(const CompactionWindow& window, const CompactionWindow& moved,
                const proto::OpenReadResponse& packed, proto::WriteExtentsRequest& request) {
  client::add_file_extents(moved.runs(), 0, packed.extents(), *request.mutable_extents());
  if (moved.extents.size() < window.extents.size()) {
    for (const LocatedExtent& extent : window.extents)
      if (!extent.stripe->is_inline()) put_extent(extent, *request.add_extents());
    std::ranges::sort(*request.mutable_extents(), {},
                      [](const proto::Extent& extent) { return extent.file_offset(); });
  }
  for (const LocatedExtent& extent : window.extents)
    put_extent(extent, *request.add_replaced());
}

}  // namespace

Compactor::Compactor(const runtime::Runtime& runtime, client::Options options, const rpc::Secret& secret,
                     CompactionHost& host)
    : resources_(runtime, with_memory(std::move(options)), secret), host_(host), tasks_(runtime) {}

void Compactor::want(InodeId inode) {
  if (room() == 0 || std::ranges::find(waiting_, inode) != waiting_.end()) return;
  waiting_.push_back(inode);
  if (!std::exchange(running_, true)) tasks_.spawn(run());
}

asio::awaitable<void> Compactor::stop() {
  tasks_.request_stop();
  resources_.background.request_stop();
  co_await resources_.rpc.stop();
  co_await tasks_.join();
  co_await resources_.background.join();
}

CompactionCounts Compactor::counts() const {
  CompactionCounts counts = counts_;
  counts.waiting = waiting_.size() + (running_ ? 1 : 0);
  return counts;
}

asio::awaitable<void> Compactor::run() {
  while (!waiting_.empty() && !tasks_.stopping()) {
    // Once it is begun it may be wanted again: what is written to it from now on may be behind what was looked at.
    const InodeId inode = waiting_.front();
    waiting_.pop_front();
    const Status status = co_await compact(inode);
    ++(status.ok() ? counts_.files : counts_.failed);
    // Whatever is in the way: it is found again if it still lies badly.
    if (!status.ok()) log::debug("inode {}: not compacted: {}", inode, status.to_string());
  }
  running_ = false;
}

asio::awaitable<Status> Compactor::compact(InodeId inode) {
  if (!host_.may_compact(inode)) co_return Status{};
  KINTSUGI_CO_ASSIGN(const proto::Attributes attributes, co_await look_at(inode));
  const uint64_t size = attributes.size();
  KINTSUGI_CO_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(attributes.policy()));
  const uint64_t row = uint64_t{policy.k} * policy.cell_bytes;
  const uint64_t window_bytes = std::min(std::max(row, kWindowBytes / row * row), kMaxWindowBytes);
  for (uint64_t begin = 0; begin < size;) {
    if (!co_await let_repairs_go_first(inode)) co_return Status{};
    const TimePoint began = resources_.now();
    const uint64_t before = counts_.bytes;
    KINTSUGI_CO_ASSIGN(begin, co_await improve(inode, begin, begin + std::min(window_bytes, size - begin)));
    if (!co_await rest(resources_.now() - began, counts_.bytes - before)) co_return Status{};
  }
  co_return Status{};
}

asio::awaitable<Result<proto::Attributes>> Compactor::look_at(InodeId inode) {
  sight::BackgroundTask task{resources_.context(), kLookAtFile};
  auto answer = co_await ask(task.context(), inode, 0, 1);
  if (!answer) co_return task.finish(answer.error());
  co_return std::move(*answer->mutable_attributes());
}

asio::awaitable<Result<uint64_t>> Compactor::improve(InodeId inode, uint64_t begin, uint64_t end) {
  sight::BackgroundTask task{resources_.context().with_deadline(resources_.now() + kWindowLimit), kCompact};
  const auto window = co_await locate(task.context(), inode, begin, end);
  if (!window) co_return task.finish(window.error());
  if (window->extents.empty()) {
    // A hole: it may be an exbibyte.
    const auto rest = co_await ask(task.context(), inode, end, 0);
    if (!rest) co_return task.finish(rest.error());
    co_return rest->extents().empty() ? UINT64_MAX : std::max(end, rest->extents(0).file_offset());
  }
  const CompactionWindow badly = badly_laid(*window);
  task.output(0, double(badly.bytes()));
  task.output(1, double(badly.extents.size()));
  if (!badly.extents.empty()) {
    const Status moved = co_await move(task.context(), inode, *window, badly);
    if (!moved.ok()) co_return task.finish(moved);
  }
  co_return window->extents.size() == kMaxExtents ? window->end() : end;
}

asio::awaitable<bool> Compactor::let_repairs_go_first(InodeId inode) {
  const TimePoint give_up = resources_.now() + kLongestYield;
  while (host_.repairs_first() && resources_.now() < give_up && host_.may_compact(inode))
    if (!co_await tasks_.sleep_for(kLook)) co_return false;
  co_return !tasks_.stopping() && host_.may_compact(inode);
}

asio::awaitable<bool> Compactor::rest(Duration took, uint64_t bytes) {
  Duration rest = std::clamp<Duration>(took * kRest, kShortestRest, kLongestRest);
  if (const uint64_t bandwidth = host_.compaction_bandwidth(); bandwidth > 0) {
    const std::chrono::duration<double> needed{double(bytes) / double(bandwidth)};
    rest = std::max(rest, std::chrono::duration_cast<Duration>(needed) - took);
  }
  co_return co_await tasks_.sleep_for(rest);
}

asio::awaitable<Result<proto::OpenReadResponse>> Compactor::ask(Context context, InodeId inode,
                                                                uint64_t begin, uint64_t length) {
  proto::OpenReadRequest request;
  request.set_inode(inode.value);
  request.set_offset(begin);
  request.set_length(length);
  request.set_as_stored(true);
  proto::OpenReadResponse answer;
  KINTSUGI_CO_TRY(co_await resources_.meta.call(context, rpc::Method::kOpenRead, request, answer));
  resources_.health.told_slow(answer.slow_servers());
  co_return answer;
}

asio::awaitable<Result<CompactionWindow>> Compactor::locate(Context context, InodeId inode, uint64_t begin,
                                                            uint64_t end) {
  CompactionWindow window;
  while (begin < end && window.extents.size() < kMaxExtents) {
    KINTSUGI_CO_ASSIGN(const proto::OpenReadResponse answer,
                       co_await ask(context, inode, begin, end - begin));
    KINTSUGI_CO_ASSIGN(const std::vector<LocatedExtent> extents, client::located_extents(answer));
    for (const LocatedExtent& extent : extents) {
      if (window.extents.size() == kMaxExtents) break;
      window.extents.push_back(extent.clipped(begin, end));
    }
    if (!answer.more() || extents.empty()) break;
    begin = window.extents.back().end();
  }
  co_return window;
}

asio::awaitable<Result<std::vector<std::byte>>> Compactor::read(Context context,
                                                                const CompactionWindow& window) {
  std::vector<std::byte> bytes;
  for (const client::ByteRange& run : window.runs()) {
    for (uint64_t begin = run.begin; begin < run.end;) {
      const uint64_t end = std::min(run.end, begin + kReadBytes);
      std::vector<LocatedExtent> parts;
      for (const LocatedExtent& extent : window.extents)
        if (extent.offset < end && extent.end() > begin) parts.push_back(extent.clipped(begin, end));
      client::RangeRead part(resources_, context, begin, end, std::move(parts));
      KINTSUGI_CO_ASSIGN(client::Lease lease,
                         co_await resources_.memory.reserve(part.buffers_needed(), context.deadline));
      const runtime::Wait wait(context, runtime::WaitKind::kJoin);
      KINTSUGI_CO_TRY(co_await part.run(std::move(lease)));
      const size_t at = bytes.size();
      bytes.resize(at + (end - begin));
      part.copy(begin, std::span(bytes).subspan(at));
      begin = end;
    }
  }
  co_return bytes;
}

asio::awaitable<Status> Compactor::move(Context context, InodeId inode, const CompactionWindow& window,
                                        const CompactionWindow& moved) {
  sight::Module module{context, kMove, {double(moved.bytes()), double(moved.extents.size())}};
  const auto bytes = co_await read(module.context(), moved);
  if (!bytes) co_return module.finish(bytes.error());
  client::MemorySource source(*bytes);
  client::Upload upload(resources_, client::WhichFile{.inode = inode.value}, "", bytes->size());
  client::StripedWriter writer(resources_, module.context(), upload, source, fmt::format("inode {}", inode),
                               {});
  const Status written = co_await writer.run();
  if (!written.ok()) {
    co_await upload.abort(module.context());
    co_return module.finish(written);
  }
  proto::WriteExtentsRequest request;
  request.set_inode(inode.value);
  request.set_upload_id(upload.id());
  writer.take_sealed(*request.mutable_sealed());
  proto::OpenReadResponse packed;
  writer.add_extents(*packed.mutable_extents());
  put_places(window, moved, packed, request);
  proto::WriteExtentsResponse response;
  const Status placed =
      co_await resources_.meta.call(module.context(), rpc::Method::kWriteExtents, request, response);
  if (placed.ok()) {
    counts_.bytes += bytes->size();
  } else {
    // Mostly somebody else has changed these bytes. When the file is gone, the next look says so.
    ++counts_.lost;
    co_await upload.abort(module.context());
  }
  co_return Status{};
}

}  // namespace kintsugi::repair_manager
