/// Which server takes more and more memory while the others of its kind do not: a leak, or something beside it that walks through memory. Not
/// thread-safe.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/proto/sight.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::similarity {

struct MemorySettings {
  Duration step = std::chrono::seconds(5);
  size_t remembered = 60;       ///< steps, that say how much memory a process has as a rule
  size_t least_remembered = 6;  ///< before anything is more than usual
  uint64_t least_growth =
      256ull << 20;          ///< beyond what it has as a rule, and beyond what the others have grown by
  double least_share = 0.5;  ///< the same, of what it has as a rule
  size_t least_peers =
      2;  ///< others of its kind; with fewer twice as much growth is needed, and the verdict is unsure
  size_t raise_steps = 3;  ///< successive ones
  /// Memory that has not grown any more for so long is what the process needs now.
  Duration settles = std::chrono::minutes(10);
  size_t most_processes = 4096;
};

/// What one process says.
struct MemoryUse {
  std::string name;  ///< as people know it
  uint64_t server_id = 0, process = 0;
  std::string kind;
  uint64_t bytes = 0;
};

class MemoryWatch {
 public:
  explicit MemoryWatch(MemorySettings settings = {}) : settings_(settings) {}

  /// All processes as they are now. Call it about every second. Those that are missing are forgotten.
  void look(const std::vector<MemoryUse>& processes, TimePoint now);
  /// RESOURCE verdicts with the region "memory", the largest growth first.
  std::vector<proto::Verdict> alarms(TimePoint now) const;

 private:
  struct Known {
    MemoryUse last;
    std::deque<uint64_t> usual;  ///< in steps without an alarm
    uint64_t base = 0;           ///< the median of those
    int64_t growth = 0;
    uint64_t largest = 0;
    TimePoint grew{};  ///< when it was larger than ever
    size_t odd = 0;    ///< successive steps
    std::optional<TimePoint> since;
    int64_t peers_growth = 0;
    size_t peers = 0;
  };
  void judge(Known& known, TimePoint now);

  MemorySettings settings_;
  std::map<uint64_t, Known> known_;  ///< by process
  std::optional<TimePoint> looked_;
};

}  // namespace kintsugi::similarity
