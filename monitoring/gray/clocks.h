/// Clocks that jump: a process's wall clock moved by another time than passed. Whatever is judged by it (ages in logs,
/// expiries, times of files) is wrong by that much. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "monitoring/gray/party.h"

namespace kintsugi::gray {

struct ClockSettings {
  Duration least = std::chrono::seconds(2);  ///< a smaller step is one of the time service
  Duration told_for = std::chrono::seconds(60);
};

/// The clocks of a process as it read them at one moment.
struct Clocks {
  Party who;
  std::string machine;  ///< where it runs; empty: not known
  int64_t wall_ns = 0, uptime_ns = 0;
};

class ClockWatch {
 public:
  explicit ClockWatch(ClockSettings settings = {}) : settings_(settings) {}

  /// All processes that report, once a second.
  void look(const std::vector<Clocks>& processes, TimePoint now);
  /// One CLOCK verdict for each machine whose clock has jumped lately: it names one of the processes there. Masked, since
  /// the cluster goes by the metaserver's time, or by clocks that do not jump.
  std::vector<proto::Verdict> alarms(TimePoint now) const;

 private:
  struct Known {
    Clocks last;
    int64_t jumped_ns = 0;
    TimePoint at{};  ///< of the last jump
  };
  ClockSettings settings_;
  std::map<uint64_t, Known> known_;  ///< key: process
};

}  // namespace kintsugi::gray
