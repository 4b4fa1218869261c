/// Wall clocks that jump, or that differ from those of the others. Nothing that Kintsugi decides hangs on them (rights
/// to chunks and leases go by the metaserver's clock and by monotonic ones), but logs and file times are wrong.
/// Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "monitoring/gray/party.h"
#include "monitoring/gray/recent_growth.h"

namespace kintsugi::gray {

struct ClockSettings {
  Duration differs = std::chrono::minutes(1), agrees = std::chrono::seconds(30);
  size_t reports = 3;  ///< reports in a row that must say so: one may have been on its way for long
  Duration settles = std::chrono::seconds(3);  ///< processes of a machine report it one after the other
  size_t processes = 3;                        ///< among fewer nobody knows whose clock is wrong
};

struct WallClock {
  Party who;
  std::string machine;  ///< tells machines apart
  std::string host;     ///< name of the machine for people
  uint64_t jumps = 0;   ///< number of jumps since the process began
  Duration jumped{};    ///< sum of the jumps
  Duration ahead{};     ///< how far its wall clock is ahead of the monitor's
  TimePoint at{};       ///< time of the report
};

class ClockWatch {
 public:
  explicit ClockWatch(ClockSettings settings = {}) : settings_(settings) {}

  /// All processes that report, once a second.
  void look(const std::vector<WallClock>& clocks, TimePoint now);
  /// One CLOCK verdict for each process, or for a machine when all of its processes, two or more, say the same. A jump
  /// is told for a minute.
  std::vector<proto::Verdict> alarms(TimePoint now) const;

 private:
  struct Known {
    WallClock last;
    Duration jumped{};  ///< the latest jump
    TimePoint jumped_at{};
    Duration off{};  ///< ahead of most others
    size_t reports = 0;
    bool differs = false;
    TimePoint since{};
    bool jumped_lately() const { return jumped != Duration{}; }
  };
  /// How far most clocks are ahead of the monitor's.
  Duration usual() const;

  ClockSettings settings_;
  std::map<uint64_t, Known> known_;  ///< key: process
};

}  // namespace kintsugi::gray
