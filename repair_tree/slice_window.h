/// The sums of a few slices, while contributions to them come in and complete ones go out.
#pragma once

#include <span>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "repair_tree/sum_range.h"

namespace kintsugi::repair_tree {

/// Contributors add to slices in order, each at its own pace, and may be ahead of the consumer by the
/// window's size. With two slices or more a node receives the next one while it sends the last.
class SliceWindow {
 public:
  static constexpr size_t kSlices = 3;
  static constexpr uint64_t kSmallWindowBytes = 4ull
                                                << 20;  ///< small slices get a longer window, up to this much

  SliceWindow(const runtime::Runtime& runtime, SumRange range, size_t contributors);

  const SumRange& range() const { return range_; }
  size_t slots() const { return slots_.size(); }

  /// For a contributor: waits until `slice` is in the window. The failure, once there is one.
  asio::awaitable<Status> wait_open(size_t slice);
  /// The running sum number `sum` of an open slice; add to it with XOR.
  std::span<std::byte> sum(size_t slice, uint32_t sum);
  /// Bytes up to `end` of the slice may be other than zero now.
  void reached(size_t slice, uint64_t end);
  /// Nothing more comes from this contributor for the slice.
  void contributed(size_t slice);

  /// For the consumer: true when `slice` is complete, false at `until`.
  asio::awaitable<Result<bool>> wait_complete(size_t slice, TimePoint until);
  uint64_t nonzero_bytes(size_t slice) const { return slot(slice).nonzero; }
  /// The oldest slice is consumed: its memory serves the next one.
  void release(size_t slice);

  /// Ends every wait; the first failure stays.
  void fail(Status why);
  const Status& failure() const { return failure_; }

 private:
  struct Slot {
    std::vector<std::byte> memory;  ///< the sums one after the other
    size_t missing = 0;             ///< contributions
    uint64_t nonzero = 0;
  };
  Slot& slot(size_t slice) { return slots_[slice % slots_.size()]; }
  const Slot& slot(size_t slice) const { return slots_[slice % slots_.size()]; }

  SumRange range_;
  size_t contributors_;
  std::vector<Slot> slots_;
  size_t released_ = 0;
  Status failure_;
  runtime::Event opened_, completed_;
};

}  // namespace kintsugi::repair_tree
