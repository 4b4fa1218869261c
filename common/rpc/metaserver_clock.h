/// The metaserver's wall clock, as its answers tell it. Capabilities expire by it.
#pragma once

#include "common/runtime/clock.h"

namespace kintsugi::rpc {

/// Machines' clocks may differ by hours; what the metaserver signs still holds for as long as it means, for whoever
/// checks or signs judges by this clock. Between two answers it continues with the steady clock, so that a wall clock
/// that jumps changes nothing.
class MetaserverClock {
 public:
  /// A difference from which on it is told in the log, once, and one below which it counts as mended.
  static constexpr Duration kTold = 1min, kMended = 30s;

  /// `clock` is this process's own, and outlives it.
  explicit MetaserverClock(const runtime::Clock& clock) : clock_(clock) {}

  /// An answer said `wall_ns`; it was asked for at `asked`, so that it was true about half way between then and now. 0
  /// means nothing: earlier metaservers do not tell.
  void heard(int64_t wall_ns, TimePoint asked);

  /// This process's own clock before anything was heard.
  WallTime now() const;
  /// How far the own wall clock is ahead of the metaserver's.
  Duration own_ahead() const { return clock_.wall_now() - now(); }

 private:
  const runtime::Clock& clock_;
  bool known_ = false, told_ = false;
  WallTime wall_;  ///< time that the metaserver's clock showed
  TimePoint at_;   ///< time of this process's own clock at that moment
};

}  // namespace kintsugi::rpc
