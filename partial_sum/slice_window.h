/// The sums of a few slices, while contributions to them come in and complete ones go out.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/runtime/context.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "partial_sum/held_memory.h"
#include "partial_sum/sum_range.h"

namespace kintsugi::partial_sum {

/// How a node spends its memory: at most (children + 2) * slice_bytes * sums for all parts together, except for a range
/// of less than a block.
struct WindowSize {
  /// Slices are filled and forwarded in units, so that the next hop begins before a slice is whole.
  uint64_t unit_bytes = 0;
  size_t units = 0;  ///< units that are open at a time
  /// Size of the pieces that are received from a child, if they do not go straight into the sums.
  uint64_t piece_bytes = 0;
  uint64_t own_bytes = 0;  ///< size of the reads of the node's own chunk; whole blocks
  bool own_first = true;   ///< whether the own chunk may be added before a child's sum
  bool whole = false;  ///< nothing is forwarded before the whole sum is complete; a leaf sends as it reads

  struct Node {
    size_t children = 0;
    bool own = false;          ///< the node has a chunk of its own
    bool whole_cells = false;  ///< units are whole sub-cells: the sink needs the cells in chunk order
    bool keep_all = false;     ///< the window holds the whole range
    bool masked = false;       ///< children carry different slices
    bool plain_child = false;  ///< the only child's outputs are added to the node's sums as they are
  };
  static WindowSize choose(const SumRange& range, const Node& node);
};

/// Contributors add to the units of the slices they carry, in order, each at its own speed, and may be ahead of the
/// consumer by the window's size. The first one to reach a unit writes its bytes there, the others follow it through
/// the unit and add theirs: no unit is cleared before it is used.
class SliceWindow {
 public:
  /// The slices that the window holds when all children carry the same ones.
  static constexpr size_t kSlices = 2;

  /// `contributors` has the slices that each of them carries.
  SliceWindow(const runtime::Runtime& runtime, SumRange range, WindowSize size,
              std::vector<SliceMask> contributors);

  const SumRange& range() const { return range_; }
  const WindowSize& size() const { return size_; }
  HeldMemory& held() { return held_; }
  const HeldMemory& held() const { return held_; }

  /// Units of all slices that the tree carries.
  size_t units() const { return units_; }
  /// Where the unit begins, relative to the range's offset.
  uint64_t begin_of(size_t unit) const;
  uint64_t bytes_of(size_t unit) const;
  size_t slice_of(size_t unit) const { return range_.carried_slice(unit / units_per_slice_); }
  /// The unit after the last one of its slice.
  size_t end_of_slice(size_t unit) const;
  /// The first unit from `unit` on that the contributor carries; units() when there is none.
  size_t next_carried(size_t contributor, size_t unit) const;

  /// Waits until the contributor may give bytes of the unit up to `end`. True when it is the first one there: it
  /// overwrites. Once there is a failure, that. `context` is the contributor's, and tells others whom they wait for.
  asio::awaitable<Result<bool>> wait_turn(const Context& context, size_t contributor, size_t unit,
                                          uint64_t end, bool may_be_first = true);
  /// The range of every sum for a contributor whose turn came. Bytes that nobody wrote so far are made zero, except
  /// those that the first contributor is about to overwrite. Valid until the next call.
  std::span<const std::span<std::byte>> sums(size_t contributor, size_t unit, uint64_t begin, uint64_t end);
  /// The contributor gave, and proved, everything up to `end` of the unit. Bytes that it did not write count as zeros.
  void advance(size_t contributor, size_t unit, uint64_t end);

  /// The span of who takes the units.
  void set_consumer(const Context& context) { consumer_span_ = context.trace.span_id; }
  /// Waits for the consumer: true when `unit` is complete (with WindowSize::whole everything), false at `until`.
  asio::awaitable<Result<bool>> wait_complete(size_t unit, TimePoint until);
  /// The complete unit's sums.
  std::span<const std::span<std::byte>> complete(size_t unit);
  uint64_t nonzero_bytes(size_t unit) const { return slot(unit).written; }
  /// The consumer is done with the oldest unit: its memory serves the next one.
  void release(size_t unit);

  /// Ends every wait; the first failure stays.
  void fail(Status why);
  const Status& failure() const { return failure_; }

 private:
  struct Slot {
    HeldBytes memory;             ///< the sums one after the other
    std::optional<size_t> first;  ///< the contributor that overwrites the memory instead of adding to it
    uint64_t first_end = 0;       ///< offset up to which that contributor has come
    /// From this offset on nothing has been written yet, and the sums are zero.
    uint64_t written = 0;
    size_t missing = 0;  ///< contributors that have not reached the end of the unit
  };
  Slot& slot(size_t unit) { return slots_[unit % slots_.size()]; }
  const Slot& slot(size_t unit) const { return slots_[unit % slots_.size()]; }
  size_t carriers(size_t unit) const;
  void open(size_t unit);
  std::span<std::span<std::byte>> view(Slot& slot, uint64_t begin, uint64_t end);

  SumRange range_;
  WindowSize size_;
  std::vector<SliceMask> contributors_;
  std::vector<uint64_t> spans_;  ///< index: contributor; length of its range, as far as known
  size_t units_per_slice_ = 1;
  size_t units_ = 0;
  HeldMemory held_;
  std::vector<Slot> slots_;
  std::vector<std::span<std::byte>> view_;
  size_t released_ = 0;  ///< units that the consumer has released
  size_t complete_ = 0;  ///< complete units from the first one on
  Status failure_;
  uint64_t consumer_span_ = 0;
  runtime::Event turned_, completed_;
};

}  // namespace kintsugi::partial_sum
