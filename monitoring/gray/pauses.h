/// Processes that stop responding again and again, each time too briefly to be called silent (fail-slow hardware,
/// a hypervisor that takes the processor away, a machine without memory). Each process measures it itself: a thread of it
/// that wakes up five times a second does so late. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "monitoring/gray/party.h"
#include "monitoring/gray/recent_growth.h"

namespace kintsugi::gray {

struct PauseSettings {
  Duration over = std::chrono::seconds(20);  ///< a share is that of so much time
  Duration least = std::chrono::seconds(8);  ///< nothing is said of less
  double raise = 0.3, clear = 0.15;          ///< shares of the time
  size_t times = 3;                          ///< one long stop is none that comes again and again
  double crowd = 0.5;  ///< share of a machine's processes that must pause for the machine to be named
};

struct Pausing {
  Party who;
  std::string machine;
  uint64_t stood_still_ns = 0;  ///< total
  /// Share of the last `over` in which it waited for a processor: so much explains why it is late.
  double delayed = 0;
  /// Most of its machine lacks a processor: the average pause of the others there explains as much of it.
  bool machine_lacks_processor = false;
  TimePoint at{};  ///< time of the report
};

class PauseWatch {
 public:
  explicit PauseWatch(PauseSettings settings = {}) : settings_(settings) {}

  /// All processes that report, once a second.
  void look(const std::vector<Pausing>& processes, TimePoint now);
  /// One PAUSES verdict a process; when most of a machine pause, they are only likely.
  std::vector<proto::Verdict> alarms(TimePoint now) const;
  /// Returns the alarms that are withheld because a lack of processor explains them.
  std::vector<proto::Verdict> excused(TimePoint now) const;

 private:
  struct Known {
    Pausing last;
    RecentGrowth growth;
    Duration of{};     ///< the time over which its pauses are known
    double late = 0;   ///< the share of that time for which it did nothing
    double share = 0;  ///< the same, without what a lack of processor explains
    bool pauses = false, excused = false;
    TimePoint since{};
  };
  void judge(Known& one, double explained, TimePoint now) const;
  /// The median of the others of its machine.
  double of_machine(uint64_t process) const;

  PauseSettings settings_;
  std::map<uint64_t, Known> known_;  ///< key: process
};

}  // namespace kintsugi::gray
