#include "client/lib/read/range_read.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "client/lib/read/small_read.h"
#include "common/base/assert.h"
#include "common/base/crc32c.h"
#include "common/log/log.h"
#include "common/runtime/span.h"

namespace kintsugi::client {
namespace {

constexpr uint64_t kNear = kBlockBytes;       ///< a gap in a stripe that is read as well
constexpr uint64_t kMaxChunkBytes = 2 << 20;  ///< most of each chunk that a window takes
constexpr size_t kSmallAtOnce = 32;           ///< windows of a block that are read at the same time
constexpr size_t kShareOfMemory = 3;          ///< a wide window takes at most this part

uint64_t window_bytes(const Memory& memory, const erasure::Policy& policy) {
  const uint64_t buffers = memory.buffers() / (kShareOfMemory * policy.chunks());
  return std::clamp<uint64_t>(buffers * Memory::kBufferBytes, Memory::kBufferBytes, kMaxChunkBytes);
}

/// Extents of different answers may name the same stripe. Bytes that were written here are in stripes without a number.
bool is_same(const LocatedStripe& one, const LocatedStripe& other) {
  return &one == &other ||
         (one.stripe.stripe_id() != 0 && one.stripe.stripe_id() == other.stripe.stripe_id());
}

}  // namespace

RangeRead::RangeRead(Resources& resources, Context context, uint64_t begin, uint64_t end,
                     std::vector<LocatedExtent> extents)
    : resources_(resources),
      context_(context),
      begin_(begin),
      end_(end),
      extents_(std::move(extents)),
      tasks_(resources.runtime) {
  plan();
}

RangeRead::~RangeRead() = default;

void RangeRead::plan() {
  std::vector<size_t> order(extents_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  run_of_.resize(extents_.size());
  std::vector<LocatedExtent> parts;
  for (const LocatedExtent& extent : extents_)
    parts.push_back(extent.clipped(begin_, end_));
  std::ranges::sort(order, {}, [&](size_t i) {
    return std::tuple(parts[i].stripe->stripe.stripe_id(), parts[i].stripe_offset, i);
  });
  for (const size_t i : order) {
    const LocatedExtent& part = parts[i];
    const uint64_t part_end = part.stripe_offset + part.length;
    const bool joins = !runs_.empty() && is_same(*runs_.back().stripe, *part.stripe) &&
                       part.stripe_offset <= runs_.back().end + kNear;
    if (joins) {
      runs_.back().end = std::max(runs_.back().end, part_end);
    } else {
      runs_.push_back({part.stripe, part.stripe_offset, part_end});
    }
    run_of_[i] = runs_.size() - 1;
  }
  for (Run& run : runs_) {
    if (run.stripe->is_inline()) {
      auto part = std::make_unique<Part>();
      part->stripe = run.stripe;
      part->window.window.stripe_offset = run.begin;
      part->window.window.bytes = run.end - run.begin;
      part->bytes = {run.stripe->inline_data().subspan(run.begin, run.end - run.begin)};
      run.first_window = windows_.size();
      run.windows = 1;
      windows_.push_back(std::move(part));
      continue;
    }
    const erasure::Policy& policy = run.stripe->policy;
    const std::shared_ptr<const proto::Stripe> stripe(run.stripe, &run.stripe->stripe);
    WindowPlan plan(policy, stripe->length(), run.begin, run.end - run.begin,
                    window_bytes(resources_.memory, policy));
    run.first_window = windows_.size();
    while (!plan.done()) {
      auto part = std::make_unique<Part>();
      part->window = {stripe, policy, plan.next()};
      part->stripe = run.stripe;
      part->single = part->window.window.wanted.size() == 1;
      part->small =
          part->single && part->window.chunk_bytes(part->window.window.wanted.front()) <= kBlockBytes;
      if (part->small) {
        small_.push_back(part.get());
      } else {
        buffers_needed_ += part->single ? SingleFetch::buffers_needed(part->window)
                                        : WindowReader::buffers_needed(part->window);
      }
      windows_.push_back(std::move(part));
    }
    run.windows = windows_.size() - run.first_window;
  }
  buffers_needed_ += std::min(small_.size(), kSmallAtOnce);
  buffers_needed_ = std::clamp<size_t>(buffers_needed_, 1, resources_.memory.buffers());
}

asio::awaitable<Status> RangeRead::run(Lease lease) {
  runtime::Wait wait(context_, runtime::WaitKind::kJoin);
  if (windows_.size() == 1 && windows_.front()->single) {
    co_await read_part(windows_.front().get(), std::move(lease));
  } else {
    for (const auto& part : windows_) {
      if (part->small || part->stripe->is_inline()) continue;
      const size_t buffers = part->single ? SingleFetch::buffers_needed(part->window)
                                          : WindowReader::buffers_needed(part->window);
      if (lease.count() < buffers + (small_.empty() ? 0 : 1)) {
        // More than there is memory at all, with a code of many chunks: one after the other.
        part->status = {Code::kUnavailable, "no memory for it yet"};
        continue;
      }
      tasks_.spawn(read_part(part.get(), lease.split(buffers)));
    }
    size_t next = 0;
    for (size_t i = 0; i < std::min(small_.size(), kSmallAtOnce) && lease.count() > 0; ++i)
      tasks_.spawn(read_small_parts(&next, lease.split(1)));
    co_await tasks_.join();
  }
  if (std::ranges::all_of(windows_, [](const auto& part) { return part->status.ok(); })) co_return Status{};
  wait.stop();
  co_return co_await read_again();
}

asio::awaitable<void> RangeRead::read_part(Part* part, Lease lease) {
  if (!part->single) {
    part->reader = std::make_unique<WindowReader>(resources_, context_, part->window, std::move(lease));
    part->status = co_await part->reader->run();
    if (part->status.ok()) part->bytes = part->reader->bytes();
    co_return;
  }
  if (part->small && co_await read_by_call(*part)) co_return;
  if (!SingleFetch::possible(resources_, part->window)) {
    part->status = {Code::kUnavailable, "its server does not look well"};
    co_return;
  }
  part->fetch = std::make_unique<SingleFetch>(resources_, context_, part->window, std::move(lease));
  part->status = co_await part->fetch->run();
  if (part->status.ok()) part->bytes = part->fetch->bytes();
  if (part->small || !part->status.ok()) detach(*part);
}

asio::awaitable<bool> RangeRead::read_by_call(Part& part) {
  const LocatedExtent bytes{.length = part.window.window.bytes,
                            .stripe = part.stripe,
                            .stripe_offset = part.window.window.stripe_offset};
  if (bytes.length > kMaxSmallRead || !is_small_read(resources_, bytes)) co_return false;
  part.copied.resize(bytes.length);
  part.status = co_await small_read(resources_, context_, bytes, part.copied);
  if (part.status.ok()) {
    part.bytes = {part.copied};
  } else {
    part.copied.clear();
  }
  co_return part.status.ok();
}

asio::awaitable<void> RangeRead::read_small_parts(size_t* next, Lease lease) {
  while (*next < small_.size()) {
    Part* part = small_[(*next)++];
    co_await read_part(part, std::move(lease));
    // The buffer came back with what was fetched; nobody else waits for it before this one asks again.
    lease = resources_.memory.try_reserve(1);
    if (lease.count() > 0) continue;
    for (; *next < small_.size(); ++*next)
      small_[*next]->status = {Code::kUnavailable, "no memory for it yet"};
  }
}

void RangeRead::detach(Part& part) {
  if (part.status.ok() && part.copied.empty()) {
    part.copied.reserve(part.window.window.bytes);
    for (const auto& range : part.bytes)
      part.copied.insert(part.copied.end(), range.begin(), range.end());
    part.bytes = {part.copied};
  }
  part.fetch.reset();
  part.reader.reset();
}

asio::awaitable<Status> RangeRead::read_again() {
  for (const auto& part : windows_)
    detach(*part);
  for (const auto& part : windows_) {
    if (part->status.ok()) continue;
    log::debug("stripe {}: {}", part->window.stripe->stripe_id(), part->status.to_string());
    KINTSUGI_CO_ASSIGN(Lease lease, co_await resources_.memory.reserve(
                                        WindowReader::buffers_needed(part->window),
                                        std::min(context_.deadline, resources_.now() + kMemoryLimit)));
    WindowReader reader(resources_, context_, part->window, std::move(lease));
    const runtime::Wait again(context_, runtime::WaitKind::kJoin);
    part->status = co_await reader.run();
    if (!part->status.ok()) co_return part->status;
    for (const auto& range : reader.bytes())
      part->copied.insert(part->copied.end(), range.begin(), range.end());
    part->bytes = {part->copied};
  }
  co_return Status{};
}

void RangeRead::copy(uint64_t offset, std::span<std::byte> into) const {
  KINTSUGI_ASSERT(offset >= begin_ && offset + into.size() <= end_);
  const uint64_t end = offset + into.size();
  uint64_t at = offset;
  auto extent = std::ranges::upper_bound(extents_, offset, {}, &LocatedExtent::end);
  for (; extent != extents_.end() && extent->offset < end; ++extent) {
    const uint64_t from = std::max(at, extent->offset), to = std::min(end, extent->end());
    std::memset(into.data() + (at - offset), 0, from - at);
    const Run& run = runs_[run_of_[static_cast<size_t>(extent - extents_.begin())]];
    uint64_t stripe_at = extent->stripe_offset + (from - extent->offset);
    std::byte* target = into.data() + (from - offset);
    const auto windows = std::span(windows_).subspan(run.first_window, run.windows);
    auto window = std::ranges::upper_bound(windows, stripe_at, {}, [](const auto& part) {
      return part->window.window.stripe_offset + part->window.window.bytes;
    });
    for (uint64_t left = to - from; left > 0; ++window) {
      uint64_t skip = stripe_at - (*window)->window.window.stripe_offset;
      for (const auto& range : (*window)->bytes) {
        if (skip >= range.size()) {
          skip -= range.size();
          continue;
        }
        const uint64_t bytes = std::min<uint64_t>(left, range.size() - skip);
        std::memcpy(target, range.data() + skip, bytes);
        target += bytes;
        stripe_at += bytes;
        left -= bytes;
        skip = 0;
        if (left == 0) break;
      }
    }
    at = to;
  }
  std::memset(into.data() + (at - offset), 0, end - at);
}

}  // namespace kintsugi::client
