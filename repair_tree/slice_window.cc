#include "repair_tree/slice_window.h"

#include <cstring>

namespace kintsugi::repair_tree {
namespace {

size_t window_slots(const SumRange& range) {
  uint64_t slice_memory = std::max<uint64_t>(range.slice_bytes * range.sums, 1);
  uint64_t slots = std::max<uint64_t>(SliceWindow::kSlices, SliceWindow::kSmallWindowBytes / slice_memory);
  slots = std::min<uint64_t>(slots, std::max<uint64_t>(kMaxSliceMemoryBytes / slice_memory, 1));
  return std::max<size_t>(1, std::min<uint64_t>(slots, range.slices()));
}

}  // namespace

SliceWindow::SliceWindow(const runtime::Runtime& runtime, SumRange range, size_t contributors)
    : range_(range),
      contributors_(contributors),
      slots_(window_slots(range)),
      opened_(runtime),
      completed_(runtime) {
  for (Slot& slot : slots_)
    slot.missing = contributors_;
}

asio::awaitable<Status> SliceWindow::wait_open(size_t slice) {
  while (failure_.ok() && slice >= released_ + slots_.size())
    co_await opened_.wait();
  co_return failure_;
}

std::span<std::byte> SliceWindow::sum(size_t slice, uint32_t sum) {
  std::vector<std::byte>& memory = slot(slice).memory;
  if (memory.empty()) memory.resize(range_.slice_bytes * range_.sums);
  return std::span(memory).subspan(sum * range_.slice_bytes, range_.bytes_of(slice));
}

void SliceWindow::reached(size_t slice, uint64_t end) {
  slot(slice).nonzero = std::max(slot(slice).nonzero, end);
}

void SliceWindow::contributed(size_t slice) {
  KINTSUGI_ASSERT(slot(slice).missing > 0);
  if (--slot(slice).missing == 0) completed_.notify_all();
}

asio::awaitable<Result<bool>> SliceWindow::wait_complete(size_t slice, TimePoint until) {
  KINTSUGI_ASSERT(slice == released_);
  while (failure_.ok() && slot(slice).missing > 0) {
    bool notified = co_await completed_.wait_until(until);
    if (!notified) break;
  }
  if (!failure_.ok()) co_return failure_;
  co_return slot(slice).missing == 0;
}

void SliceWindow::release(size_t slice) {
  KINTSUGI_ASSERT(slice == released_ && slot(slice).missing == 0);
  Slot& done = slot(slice);
  for (uint32_t sum = 0; sum < range_.sums && done.nonzero > 0; ++sum) {
    std::memset(done.memory.data() + sum * range_.slice_bytes, 0, done.nonzero);
  }
  done.nonzero = 0;
  done.missing = contributors_;
  ++released_;
  opened_.notify_all();
}

void SliceWindow::fail(Status why) {
  KINTSUGI_ASSERT(!why.ok());
  if (failure_.ok()) failure_ = std::move(why);
  opened_.notify_all();
  completed_.notify_all();
}

}  // namespace kintsugi::repair_tree
