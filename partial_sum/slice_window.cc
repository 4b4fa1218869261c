#include "partial_sum/slice_window.h"

#include <algorithm>
#include <cstring>

#include "common/runtime/span.h"

namespace kintsugi::partial_sum {
namespace {

/// Large enough that frames cost little, small enough that bytes are still in the processor's cache when they
/// are forwarded.
constexpr uint64_t kUnitBytes = 128 << 10;
constexpr uint64_t kMinUnitBytes = 16 << 10;
constexpr uint64_t kPieceBytes = 64 << 10;
constexpr uint64_t kMinPieceBytes = 4 << 10;
constexpr uint64_t kOwnBytes = 512 << 10;

uint64_t whole_blocks(uint64_t bytes) {
  return std::max<uint64_t>(bytes / kBlockBytes, 1) * kBlockBytes;
}

size_t count_units(const SumRange& range, uint64_t unit_bytes) {
  const size_t slices = range.carried_slices();
  if (slices == 0) return 0;
  const uint64_t last = range.bytes_of(range.carried_slice(slices - 1));
  return (slices - 1) * divide_up(range.slice_bytes, unit_bytes) + divide_up(last, unit_bytes);
}

}  // namespace

WindowSize WindowSize::choose(const SumRange& range, const Node& node) {
  const uint64_t slice = std::max<uint64_t>(range.slice_bytes, 1);
  const uint64_t slice_memory = slice * range.sums;
  const uint64_t budget = (std::max<size_t>(node.children, 1) + 2) * slice_memory;
  WindowSize size;
  size.unit_bytes = node.whole_cells       ? range.sub_cell_bytes()
                    : slice <= kBlockBytes ? slice
                                           : std::min(kUnitBytes, slice / 2);
  size.piece_bytes = std::clamp(slice_memory / 2, kMinPieceBytes, kPieceBytes);
  size.own_bytes = std::min(whole_blocks(slice), kOwnBytes);
  size.whole = !range.sliced() && node.children > 0;
  if (!range.sliced() || node.keep_all) {
    size.units = std::max<size_t>(count_units(range, size.unit_bytes), 1);
    return size;
  }
  // The own chunk comes behind the children and takes no turn from them: a single plain child is thus always the first
  // one, is received straight into the sums, and needs no memory besides the window.
  size.own_first = node.children == 0;
  const uint64_t own = node.own ? size.own_bytes : 0;
  const uint64_t pieces = node.children == 1 && node.plain_child ? 0 : node.children * size.piece_bytes;
  const uint64_t left = budget > own + pieces ? budget - own - pieces : 0;
  const uint64_t memory = node.masked ? left : std::min(left, SliceWindow::kSlices * slice_memory);
  while (!node.whole_cells && memory < 2 * size.unit_bytes * range.sums && size.unit_bytes > kMinUnitBytes)
    size.unit_bytes /= 2;
  size.units = std::max<uint64_t>(memory / (size.unit_bytes * range.sums), 2);
  size.units = std::min(size.units, count_units(range, size.unit_bytes));
  return size;
}

SliceWindow::SliceWindow(const runtime::Runtime& runtime, SumRange range, WindowSize size,
                         std::vector<SliceMask> contributors)
    : range_(range),
      size_(size),
      contributors_(std::move(contributors)),
      spans_(contributors_.size()),
      units_per_slice_(divide_up(range.slice_bytes, std::max<uint64_t>(size.unit_bytes, 1))),
      units_(count_units(range, std::max<uint64_t>(size.unit_bytes, 1))),
      slots_(std::max<size_t>(size.units, 1)),
      view_(range.sums),
      turned_(runtime),
      completed_(runtime) {
  for (size_t unit = 0; unit < std::min(slots_.size(), units_); ++unit)
    open(unit);
}

size_t SliceWindow::carriers(size_t unit) const {
  const size_t slice = slice_of(unit);
  return std::count_if(contributors_.begin(), contributors_.end(),
                       [slice](const SliceMask& mask) { return mask.carries(slice); });
}

void SliceWindow::open(size_t unit) {
  Slot& opened = slot(unit);
  opened.first.reset();
  opened.first_end = opened.written = 0;
  opened.missing = carriers(unit);
}

uint64_t SliceWindow::begin_of(size_t unit) const {
  return range_.begin_of(slice_of(unit)) + unit % units_per_slice_ * size_.unit_bytes;
}

uint64_t SliceWindow::bytes_of(size_t unit) const {
  const uint64_t left = range_.bytes_of(slice_of(unit)) - unit % units_per_slice_ * size_.unit_bytes;
  return std::min(left, size_.unit_bytes);
}

size_t SliceWindow::end_of_slice(size_t unit) const {
  return std::min((unit / units_per_slice_ + 1) * units_per_slice_, units_);
}

size_t SliceWindow::next_carried(size_t contributor, size_t unit) const {
  while (unit < units_ && !contributors_[contributor].carries(slice_of(unit)))
    unit = end_of_slice(unit);
  return unit;
}

asio::awaitable<Result<bool>> SliceWindow::wait_turn(const Context& context, size_t contributor, size_t unit,
                                                     uint64_t end, bool may_be_first) {
  KINTSUGI_ASSERT(unit >= released_ && unit < units_);
  spans_[contributor] = context.trace.span_id;
  while (failure_.ok()) {
    uint64_t waits_for = consumer_span_;
    // A slot belongs to this unit only once the unit that had it before is released.
    if (unit < released_ + slots_.size()) {
      Slot& here = slot(unit);
      if (!here.first && may_be_first) here.first = contributor;
      if (here.first == contributor) co_return true;
      if (here.first && here.first_end >= end) co_return false;
      if (here.first) {
        waits_for = spans_[*here.first];
      } else {
        // Any other contributor may be the first, and those that come are few.
        for (size_t other = 0; other < spans_.size(); ++other)
          if (other != contributor && spans_[other] != 0) waits_for = spans_[other];
      }
    }
    const runtime::Wait wait(context, runtime::WaitKind::kSibling, 0, waits_for);
    co_await turned_.wait();
  }
  co_return failure_;
}

std::span<std::span<std::byte>> SliceWindow::view(Slot& slot, uint64_t begin, uint64_t end) {
  for (uint32_t sum = 0; sum < range_.sums; ++sum)
    view_[sum] = slot.memory.span().subspan(sum * size_.unit_bytes + begin, end - begin);
  return view_;
}

std::span<const std::span<std::byte>> SliceWindow::sums(size_t contributor, size_t unit, uint64_t begin,
                                                        uint64_t end) {
  Slot& here = slot(unit);
  if (here.memory.empty()) {
    // Where every unit has a slot of its own, and one sum, the slot need not be larger than its unit.
    const uint64_t bytes = units_ <= slots_.size() && range_.sums == 1 ? bytes_of(unit) : size_.unit_bytes;
    here.memory = HeldBytes(held_, bytes * range_.sums);
  }
  const uint64_t zero_end = here.first == contributor ? begin : end;
  if (zero_end > here.written) {
    for (std::span<std::byte> sum : view(here, here.written, zero_end))
      std::memset(sum.data(), 0, sum.size());
  }
  here.written = std::max(here.written, end);
  return view(here, begin, end);
}

void SliceWindow::advance(size_t contributor, size_t unit, uint64_t end) {
  Slot& here = slot(unit);
  KINTSUGI_ASSERT(here.missing > 0);
  if (here.first == contributor) {
    here.first_end = end;
    turned_.notify_all();
  }
  if (end < bytes_of(unit)) return;
  if (--here.missing > 0) return;
  const size_t open_end = std::min(released_ + slots_.size(), units_);
  while (complete_ < open_end && slot(complete_).missing == 0)
    ++complete_;
  completed_.notify_all();
}

asio::awaitable<Result<bool>> SliceWindow::wait_complete(size_t unit, TimePoint until) {
  KINTSUGI_ASSERT(unit == released_);
  const size_t wanted = size_.whole ? units_ : unit + 1;
  while (failure_.ok() && complete_ < wanted) {
    bool notified = co_await completed_.wait_until(until);
    if (!notified) break;
  }
  if (!failure_.ok()) co_return failure_;
  co_return complete_ >= wanted;
}

std::span<const std::span<std::byte>> SliceWindow::complete(size_t unit) {
  Slot& here = slot(unit);
  const uint64_t bytes = bytes_of(unit);
  if (here.written == 0) return sums(contributors_.size(), unit, 0, bytes);
  if (here.written < bytes) {
    for (std::span<std::byte> sum : view(here, here.written, bytes))
      std::memset(sum.data(), 0, sum.size());
  }
  return view(here, 0, bytes);
}

void SliceWindow::release(size_t unit) {
  KINTSUGI_ASSERT(unit == released_ && unit < complete_);
  ++released_;
  const size_t opened = unit + slots_.size();
  if (opened < units_) {
    open(opened);
    turned_.notify_all();
  } else {
    slot(unit).memory = {};
  }
}

void SliceWindow::fail(Status why) {
  KINTSUGI_ASSERT(!why.ok());
  if (failure_.ok()) failure_ = std::move(why);
  turned_.notify_all();
  completed_.notify_all();
}

}  // namespace kintsugi::partial_sum
