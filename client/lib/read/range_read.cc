#include "client/lib/read/range_read.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "client/lib/read/small_read.h"
#include "common/base/assert.h"
#include "common/base/crc32c.h"
#include "common/log/log.h"

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
  plan_runs();
  for (Run& run : runs_)
    plan_windows(run);
  least_buffers_ += std::min(small_.size(), kSmallAtOnce);
  least_buffers_ = std::clamp<size_t>(least_buffers_, 1, resources_.memory.buffers());
  buffers_needed_ = std::clamp(buffers_needed_, least_buffers_, resources_.memory.buffers());
}

RangeRead::~RangeRead() = default;

uint64_t RangeRead::first_window(const Memory& memory, const LocatedExtent& extent) {
  const LocatedStripe& stripe = *extent.stripe;
  return WindowPlan(stripe.policy, stripe.stripe.length(), extent.stripe_offset, extent.length,
                    window_bytes(memory, stripe.policy))
      .next()
      .bytes;
}

void RangeRead::plan_runs() {
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
}

void RangeRead::plan_windows(Run& run) {
  run.first_window = windows_.size();
  if (run.stripe->is_inline()) {
    Part& part = *windows_.emplace_back(std::make_unique<Part>());
    part.stripe = run.stripe;
    part.window.window = {.stripe_offset = run.begin, .bytes = run.end - run.begin};
    part.bytes = {run.stripe->inline_data().subspan(run.begin, run.end - run.begin)};
    run.windows = 1;
    return;
  }
  const erasure::Policy& policy = run.stripe->policy;
  const std::shared_ptr<const proto::Stripe> stripe(run.stripe, &run.stripe->stripe);
  WindowPlan plan(policy, stripe->length(), run.begin, run.end - run.begin,
                  window_bytes(resources_.memory, policy));
  while (!plan.done()) {
    Part& part = *windows_.emplace_back(std::make_unique<Part>());
    part.window = {stripe, policy, plan.next()};
    part.stripe = run.stripe;
    const std::vector<uint32_t>& wanted = part.window.window.wanted;
    part.small = wanted.size() == 1 && part.window.chunk_bytes(wanted.front()) <= kBlockBytes;
    buffers_needed_ = std::max(buffers_needed_, WindowReader::buffers_needed(part.window));
    if (part.small) {
      small_.push_back(&part);
    } else {
      least_buffers_ += WindowReader::least_buffers(part.window);
    }
  }
  run.windows = windows_.size() - run.first_window;
}

// ---- reading

asio::awaitable<Status> RangeRead::run(Lease lease) {
  lease_ = std::move(lease);
  const Status too_little{Code::kLimitExceeded, "no memory for it yet"};
  if (windows_.size() == 1 && !windows_.front()->stripe->is_inline()) {
    if (lease_.count() < least_buffers_)
      windows_.front()->status = too_little;
    else
      co_await read_part(windows_.front().get(), std::move(lease_));
  } else {
    for (const auto& part : windows_) {
      if (part->small || part->stripe->is_inline()) continue;
      const size_t buffers = WindowReader::least_buffers(part->window);
      if (lease_.count() < buffers + (small_.empty() ? 0 : 1)) {
        // More than there is memory at all, with a code of many chunks: one after the other.
        part->status = too_little;
        continue;
      }
      tasks_.spawn(read_part(part.get(), lease_.split(buffers)));
    }
    if (lease_.count() == 0)
      for (Part* const part : small_)
        part->status = too_little;
    size_t next = 0;
    for (size_t i = std::min({small_.size(), kSmallAtOnce, lease_.count()}); i > 0; --i)
      tasks_.spawn(read_small_parts(&next));
    co_await tasks_.join();
  }
  if (std::ranges::any_of(windows_, [](const auto& part) { return !part->status.ok(); }))
    KINTSUGI_CO_TRY(co_await read_rest());
  uint64_t copied = 0;
  for (const auto& part : windows_)
    copied += part->copied.size();
  lease_ = lease_.split(std::min(lease_.count(), Memory::buffers_for(copied)));
  co_return Status{};
}

asio::awaitable<void> RangeRead::read_part(Part* part, Lease lease) {
  if (part->small && co_await read_by_call(*part)) {
    lease_.add(std::move(lease));
    co_return;
  }
  const size_t given = lease.count();
  part->reader = std::make_unique<WindowReader>(resources_, context_, part->window);
  part->status = co_await part->reader->run(std::move(lease));
  if (part->status.ok()) part->bytes = part->reader->bytes();
  // Who reads small parts takes the buffers for the next one. A part that is alone keeps them, unless it took those of other
  // chunks besides: its bytes may be kept for long.
  const bool is_light = windows_.size() == 1 && part->reader->buffers_held() <= given;
  const bool keeps = part->status.ok() && (!part->small || is_light);
  if (!keeps) detach(*part);
}

asio::awaitable<bool> RangeRead::read_by_call(Part& part) {
  const LocatedExtent bytes{.length = part.window.window.bytes,
                            .stripe = part.stripe,
                            .stripe_offset = part.window.window.stripe_offset};
  // A whole chunk comes by one call as well, which compares it with what was written.
  const bool is_whole = bytes.length == part.window.placement(part.window.window.wanted.front()).length();
  if (is_whole || bytes.length > kMaxSmallRead || !is_small_read(resources_, bytes)) co_return false;
  part.copied.resize(bytes.length);
  part.status = co_await small_read(resources_, context_, bytes, part.copied);
  if (part.status.ok()) {
    part.bytes = {part.copied};
  } else {
    part.copied.clear();
  }
  co_return part.status.ok();
}

asio::awaitable<void> RangeRead::read_small_parts(size_t* next) {
  while (*next < small_.size()) {
    // Each who reads small parts took one buffer of lease_ at most, and gave at least that one back.
    Part* part = small_[(*next)++];
    co_await read_part(part, lease_.split(1));
  }
}

void RangeRead::detach(Part& part) {
  if (!part.reader) return;
  if (part.status.ok()) {
    part.copied.reserve(part.window.window.bytes);
    for (const auto& range : part.bytes)
      part.copied.insert(part.copied.end(), range.begin(), range.end());
    part.bytes = {part.copied};
  }
  lease_.add(part.reader->take_lease());
  part.reader.reset();
}

asio::awaitable<Status> RangeRead::read_rest() {
  for (const auto& part : windows_) {
    if (!part->status.ok() && part->status.code() != Code::kLimitExceeded) co_return part->status;
  }
  for (const auto& part : windows_)
    detach(*part);
  for (const auto& part : windows_) {
    if (part->status.ok()) continue;
    log::debug("stripe {}: {}", part->window.stripe->stripe_id(), part->status.to_string());
    const size_t needed = WindowReader::buffers_needed(part->window);
    if (lease_.count() < needed) {
      lease_ = {};
      KINTSUGI_CO_ASSIGN(lease_, co_await resources_.memory.reserve(
                                     needed, std::min(context_.deadline, resources_.now() + kMemoryLimit)));
    }
    co_await read_part(part.get(), std::move(lease_));
    if (!part->status.ok()) co_return part->status;
    detach(*part);
  }
  co_return Status{};
}

Lease RangeRead::take_lease() {
  for (const auto& part : windows_) {
    if (part->reader) lease_.add(part->reader->take_lease());
    part->reader.reset();
  }
  return std::move(lease_);
}

// ---- bytes

std::vector<Stretch> RangeRead::stretches(uint64_t begin, uint64_t end) const {
  KINTSUGI_ASSERT(begin >= begin_ && end <= end_);
  std::vector<Stretch> found;
  uint64_t at = begin;
  auto extent = std::ranges::upper_bound(extents_, begin, {}, &LocatedExtent::end);
  for (; extent != extents_.end() && extent->offset < end; ++extent) {
    const uint64_t from = std::max(at, extent->offset), to = std::min(end, extent->end());
    if (from > at) found.push_back({at, from - at, {}});
    const Run& run = runs_[run_of_[static_cast<size_t>(extent - extents_.begin())]];
    add_stretches(run, extent->stripe_offset + (from - extent->offset), {from, to - from, {}}, found);
    at = to;
  }
  if (at < end) found.push_back({at, end - at, {}});
  return found;
}

void RangeRead::add_stretches(const Run& run, uint64_t stripe_begin, Stretch data,
                              std::vector<Stretch>& to) const {
  const auto windows = std::span(windows_).subspan(run.first_window, run.windows);
  auto window = std::ranges::upper_bound(windows, stripe_begin, {}, [](const auto& part) {
    return part->window.window.stripe_offset + part->window.window.bytes;
  });
  uint64_t skip = stripe_begin - (*window)->window.window.stripe_offset;
  for (; data.length > 0; ++window) {
    for (const auto& range : (*window)->bytes) {
      const uint64_t skipped = std::min<uint64_t>(skip, range.size());
      const uint64_t bytes = std::min<uint64_t>(data.length, range.size() - skipped);
      skip -= skipped;
      if (bytes > 0) to.push_back({data.offset, bytes, range.subspan(skipped, bytes)});
      data.offset += bytes;
      data.length -= bytes;
    }
  }
}

void RangeRead::copy(uint64_t offset, std::span<std::byte> into) const {
  for (const Stretch& stretch : stretches(offset, offset + into.size())) {
    std::byte* target = into.data() + (stretch.offset - offset);
    if (stretch.is_hole()) {
      std::memset(target, 0, stretch.length);
    } else {
      std::memcpy(target, stretch.bytes.data(), stretch.length);
    }
  }
}

}  // namespace kintsugi::client
