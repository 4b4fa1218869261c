/// Which server takes more and more memory while the others of its kind do not: a leak, or something beside it that
/// walks through memory. Not thread-safe.
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
  size_t remembered = 60;       ///< steps that define how much memory a process usually has
  size_t least_remembered = 6;  ///< steps needed before anything is more than usual
  /// Growth beyond its usual memory, and beyond the growth of the others, that is needed for an alarm.
  uint64_t least_growth = 256ull << 20;
  double least_share = 0.5;  ///< growth as a share of its usual memory that is needed as well
  /// Other processes of its kind. With fewer, twice as much growth is needed, and the verdict is unsure.
  size_t least_peers = 2;
  size_t raise_steps = 3;  ///< successive steps that are needed for an alarm
  /// Memory that has not grown any more for so long is what the process needs now.
  Duration settles = std::chrono::minutes(10);
  size_t most_processes = 4096;
};

/// What one process says.
struct MemoryUse {
  std::string name;  ///< name for people
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
    std::deque<uint64_t> usual;  ///< memory in steps without an alarm
    uint64_t base = 0;           ///< median of `usual`
    int64_t growth = 0;
    uint64_t largest = 0;
    TimePoint grew{};  ///< when its memory last reached a new maximum
    size_t odd = 0;    ///< successive steps with too much memory
    std::optional<TimePoint> since;
    int64_t peers_growth = 0;
    size_t peers = 0;
  };
  void judge(Known& known, TimePoint now);

  MemorySettings settings_;
  std::map<uint64_t, Known> known_;  ///< key: process id
  std::optional<TimePoint> looked_;
};

}  // namespace kintsugi::similarity
