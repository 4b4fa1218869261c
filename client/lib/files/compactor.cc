#include "client/lib/files/compactor.h"

#include <algorithm>

#include "client/lib/dirty/group_upload.h"
#include "client/lib/read/range_read.h"
#include "client/lib/write/striped_writer.h"
#include "client/lib/write/upload.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kCompact{"client.compact", {"bytes", "extents"}};

constexpr size_t kMinPieces = 16;              ///< fewer are not worth the work
constexpr uint64_t kMaxPieceBytes = 32 << 10;  ///< on average, of what lies in too many
constexpr uint64_t kReadBytes = 4 << 20;       ///< at once
constexpr Duration kShortestRest = 1ms, kLongestRest = 2s;

void put_extent(const LocatedExtent& extent, proto::Extent& into) {
  into.set_file_offset(extent.offset);
  into.set_length(extent.length);
  into.set_stripe_id(extent.stripe->stripe.stripe_id());
  into.set_stripe_offset(extent.stripe_offset);
}

std::vector<ByteRange> runs_of(const CompactionWindow& window) {
  std::vector<ByteRange> runs;
  for (const LocatedExtent& extent : window.extents) {
    if (!runs.empty() && runs.back().end == extent.offset) {
      runs.back().end = extent.end();
    } else {
      runs.push_back({extent.offset, extent.end()});
    }
  }
  return runs;
}

}  // namespace

bool worth_compacting(const CompactionWindow& window) {
  uint64_t bytes = 0;
  double waste = 0;
  size_t pieces = 0;
  const LocatedExtent* last = nullptr;
  for (const LocatedExtent& extent : window.extents) {
    bytes += extent.length;
    const bool goes_on = last != nullptr && last->stripe == extent.stripe && last->end() == extent.offset &&
                         last->stripe_offset + last->length == extent.stripe_offset;
    if (!goes_on) ++pieces;
    last = &extent;
    const proto::Stripe& stripe = extent.stripe->stripe;
    // Bytes of the stripe that other files have are no waste; this file carries its share of those that no file has.
    if (stripe.live_bytes() == 0 || stripe.live_bytes() >= stripe.length()) continue;
    waste += static_cast<double>(stripe.length() - stripe.live_bytes()) * static_cast<double>(extent.length) /
             static_cast<double>(stripe.live_bytes());
  }
  if (pieces >= kMinPieces && bytes / pieces < kMaxPieceBytes) return true;
  return waste * 3 > static_cast<double>(bytes);
}

bool has_inline(const CompactionWindow& window) {
  return std::ranges::any_of(window.extents,
                             [](const LocatedExtent& extent) { return extent.stripe->is_inline(); });
}

void Compactor::want(const std::vector<uint64_t>& inodes) {
  for (const uint64_t inode : inodes)
    if (waiting_.size() < kMaxWaiting) waiting_.insert(inode);
  if (waiting_.empty() || std::exchange(running_, true)) return;
  tasks_.spawn(run());
}

asio::awaitable<void> Compactor::run() {
  while (!waiting_.empty() && !tasks_.stopping()) {
    const uint64_t inode = *waiting_.begin();
    const auto moved = co_await compact(inode);
    // Whatever is in the way: it is found again if it still lies badly.
    if (!moved) log::debug("inode {}: not compacted: {}", inode, moved.error().to_string());
    waiting_.erase(inode);
  }
  running_ = false;
}

asio::awaitable<Result<uint64_t>> Compactor::compact(uint64_t inode) {
  KINTSUGI_CO_ASSIGN(const proto::Attributes attributes, co_await calls_.get(context_, inode));
  if (attributes.type() != proto::Attributes::FILE) co_return Status{Code::kInvalidArgument, "is no file"};
  KINTSUGI_CO_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(attributes.policy()));
  const uint64_t row = uint64_t{policy.k} * policy.cell_bytes;
  const uint64_t window_bytes = std::max(row, kWindowBytes / row * row);
  uint64_t moved = 0;
  for (uint64_t begin = 0; begin < attributes.size() && !tasks_.stopping();) {
    const TimePoint began = resources_.now();
    const uint64_t others = files_.operations();
    const uint64_t end = std::min(attributes.size(), begin + window_bytes);
    KINTSUGI_CO_ASSIGN(const CompactionWindow window, co_await locate(inode, begin, end));
    begin = window.extents.size() == kMaxExtents ? window.end() : end;
    if (window.extents.empty()) continue;
    CompactionWindow badly = window;
    if (!worth_compacting(window)) {
      // The window is not worth being written anew, so its extents stay where they are, but for the bytes that the metaserver keeps itself.
      if (!has_inline(window)) continue;
      std::erase_if(badly.extents, [](const LocatedExtent& extent) { return !extent.stripe->is_inline(); });
    }
    const Status status = co_await move(inode, window, badly);
    if (status.ok()) {
      for (const LocatedExtent& extent : badly.extents)
        moved += extent.length;
      files_.moved(inode, window.begin(), window.end());
    } else if (status.code() != Code::kConflict) {
      co_return status;
    }
    const Duration took = resources_.now() - began;
    const Duration rest = took * (files_.operations() == others ? kRest : kRestBeside);
    if (!co_await tasks_.sleep_for(std::clamp<Duration>(rest, kShortestRest, kLongestRest))) break;
  }
  co_return moved;
}

asio::awaitable<Result<CompactionWindow>> Compactor::locate(uint64_t inode, uint64_t begin, uint64_t end) {
  CompactionWindow window;
  while (begin < end && window.extents.size() < kMaxExtents) {
    KINTSUGI_CO_ASSIGN(const proto::OpenReadResponse answer,
                       co_await calls_.locate(context_, inode, begin, end - begin));
    KINTSUGI_CO_ASSIGN(const std::vector<LocatedExtent> extents, located_extents(answer));
    for (const LocatedExtent& extent : extents) {
      if (window.extents.size() == kMaxExtents) break;
      window.extents.push_back(extent.clipped(begin, end));
    }
    if (!answer.more() || extents.empty()) break;
    begin = window.extents.back().end();
  }
  co_return window;
}

asio::awaitable<Result<std::vector<std::byte>>> Compactor::read(const CompactionWindow& window) {
  std::vector<std::byte> bytes;
  for (const ByteRange& run : runs_of(window)) {
    for (uint64_t begin = run.begin; begin < run.end;) {
      const uint64_t end = std::min(run.end, begin + kReadBytes);
      std::vector<LocatedExtent> parts;
      for (const LocatedExtent& extent : window.extents)
        if (extent.offset < end && extent.end() > begin) parts.push_back(extent.clipped(begin, end));
      RangeRead part(resources_, context_, begin, end, std::move(parts));
      KINTSUGI_CO_ASSIGN(Lease lease, co_await resources_.memory.reserve(part.buffers_needed(),
                                                                         resources_.now() + kMemoryLimit));
      KINTSUGI_CO_TRY(co_await part.run(std::move(lease)));
      const size_t at = bytes.size();
      bytes.resize(at + (end - begin));
      part.copy(begin, std::span(bytes).subspan(at));
      begin = end;
    }
  }
  co_return bytes;
}

asio::awaitable<Status> Compactor::move(uint64_t inode, const CompactionWindow& window,
                                        const CompactionWindow& moved) {
  sight::Module module{
      context_, kCompact, {double(window.end() - window.begin()), double(window.extents.size())}};
  const auto bytes = co_await read(moved);
  if (!bytes) co_return module.finish(bytes.error());
  MemorySource source(*bytes);
  Upload upload(resources_, WhichFile{.inode = inode}, "", bytes->size());
  StripedWriter writer(resources_, module.context(), upload, source, fmt::format("inode {}", inode), {});
  Status status = co_await writer.run();
  if (status.ok()) {
    proto::WriteExtentsRequest request;
    request.set_inode(inode);
    request.set_upload_id(upload.id());
    writer.take_sealed(*request.mutable_sealed());
    proto::OpenReadResponse packed;
    writer.add_extents(*packed.mutable_extents());
    add_file_extents(runs_of(moved), 0, packed.extents(), *request.mutable_extents());
    if (moved.extents.size() < window.extents.size()) {
      for (const LocatedExtent& extent : window.extents)
        if (!extent.stripe->is_inline()) put_extent(extent, *request.add_extents());
      std::ranges::sort(*request.mutable_extents(), {},
                        [](const proto::Extent& extent) { return extent.file_offset(); });
    }
    for (const LocatedExtent& extent : window.extents)
      put_extent(extent, *request.add_replaced());
    const auto written = co_await calls_.write_extents(module.context(), std::move(request));
    if (!written) status = written.error();
  }
  if (!status.ok()) co_await upload.abort(module.context());
  co_return module.finish(status);
}

}  // namespace kintsugi::client
