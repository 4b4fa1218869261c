/// Verdicts that stand, and those that stood: each with a number, from when it is raised until it is cleared.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "common/proto/sight.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::monitoring {

/// Pure: it is told what was found, and says what has to be written down. Not thread-safe.
class Alarms {
 public:
  /// An alarm is cleared once so many rounds in a row did not confirm it.
  static constexpr int kCleanRounds = 2;
  static constexpr size_t kMostStanding = 256;  ///< the most severe ones are kept
  static constexpr size_t kMostHistory = 1000;  ///< the most recent ones are kept
  /// Nothing is cleared for so long after the start: processes have yet to send what the monitor needs to find it
  /// again.
  static constexpr Duration kSettle = std::chrono::seconds(10);

  /// Takes in a record of an earlier life, as round() gave it out, the oldest first. Alarms that were not cleared
  /// stand.
  void restore(proto::Verdict record);

  /// One round of the detectors. Returns the records to be kept: of alarms that were raised, became more certain, or
  /// were cleared. `heard`: ids of the servers that report, and 0 when the metaserver answers. A process that is heard
  /// is silent no more, whatever was found in an earlier life.
  std::vector<proto::Verdict> round(std::vector<proto::Verdict> found, TimePoint now, WallTime wall,
                                    const std::set<uint64_t>& heard = {});

  /// The worst first.
  std::vector<proto::Verdict> standing() const;
  /// The cleared alarms, the newest first.
  const std::deque<proto::Verdict>& history() const { return history_; }

  struct Totals {
    uint64_t raised = 0, cleared = 0;  ///< counted since this process started
  };
  Totals totals() const { return totals_; }

 private:
  struct Alarm {
    proto::Verdict verdict;
    int clean_rounds = 0;
  };
  void clear(Alarm alarm, WallTime wall, std::vector<proto::Verdict>& records);

  std::map<uint64_t, Alarm> standing_;  ///< key: progress::identity
  std::deque<proto::Verdict> history_;
  uint64_t last_id_ = 0;
  TimePoint started_{};  ///< time of the first round
  Totals totals_;
};

/// Verdicts on what nobody can work without come first, the silent metaserver before all, then the surer ones,
/// then those that hold up more.
bool is_worse(const proto::Verdict& a, const proto::Verdict& b);

}  // namespace kintsugi::monitoring
