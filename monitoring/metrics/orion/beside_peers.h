/// How far a metric of a process moved beside what its peers did meanwhile.
///
/// Few windows of one process prove little: a metric that moves in rare steps has shown hardly anything of what it may do.
/// Its peers, processes with the same metrics, are a second healthy reference, then and now: what all do at once, under a load
/// that changes, is left out. So two things are told of a shift: its size, by which metrics and processes are ranked, and its
/// rarity, by which they are reported. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "monitoring/metrics/orion/shifts.h"

namespace kintsugi::orion {

/// A reference of fewer processes is none.
inline constexpr size_t kFewestPeers = 3;
/// Windows that count: a shift that is gone in the next window is none.
inline constexpr size_t kShiftedWindows = 3;
/// Healthy times differ from each other: a shift is reported when it is so many times as rare as what they show.
inline constexpr double kShiftMargin = 1.6;
/// The deviation that a share of time is taken to have at least: whether a server waited for some microseconds of a second or
/// for some hundreds, nobody waits for it.
inline constexpr double kLeastShareOfTime = 2e-4;
/// The healthy time is cut into so many parts, each of which is judged by the others.
inline constexpr size_t kHealthyParts = 5;

/// Means over the kShiftedWindows windows in which a metric is farthest off, once what the median of its peers did at the
/// same time is left out.
struct Shift {
  /// In deviations: the largest of how far it is from its peers in healthy windows, how far they are from each other there, and
  /// how far these are apart now.
  double size = 0;
  double rarity = 0;      ///< the deviation of a normal variable that is as rare
  double moved = 0;       ///< what it did itself in those windows
  int64_t middle_ns = 0;  ///< the middle of the window in which it is farthest off
  /// At least one window was compared with those of enough others. Else it was set beside its own healthy time, or there was none.
  bool beside_peers = false;
};

/// Processes that are compared. A metric is judged for all of them when one asks first, and remembered. REQUIRES: all outlive it.
class Group {
 public:
  explicit Group(std::vector<const Shifts*> processes) : processes_(std::move(processes)) {}

  size_t size() const { return processes_.size(); }
  /// Of a metric by its common name. REQUIRES: `own` is one of the processes and has the metric. Where no more than kFewestPeers
  /// have it now: beside its own healthy windows. Windows in which fewer others are known than that are left out.
  Shift shift_of(const Shifts& own, const std::string& metric);
  /// The rarest shift that any of them shows in a part of its healthy time, judged by the other parts. What comes in bursts shows
  /// rare ones there.
  double rarest_when_healthy(const std::string& metric);

 private:
  struct Metric {
    std::map<const Shifts*, Shift> shifts;  ///< shifts of those that have it
    double rarest_when_healthy = 0;
  };
  const Metric& judged(const std::string& metric);

  std::vector<const Shifts*> processes_;
  std::map<std::string, Metric> judged_;  ///< by common name
};

}  // namespace kintsugi::orion
