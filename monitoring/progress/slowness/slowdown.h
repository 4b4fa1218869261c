/// What makes progress, but slower than it did: processes that make others wait longer than usual, and do not wait
/// longer for somebody else himself.
///
/// Processes report how long they waited in all, by state and target. The growth between two such reports is a window.
/// What a wait took on average there, beyond the usual of earlier windows, is blamed on its target; a process hands on
/// what it waited too long itself.
///
/// Time in which a process could have run, and had no processor, is nobody's fault in the cluster: of the target it
/// delays each answer that is under way meanwhile, of who waits it delays that an answer which has come is seen. What
/// such time may account for is taken off the blame; and where nothing is left that would be slow, the machine is told
/// instead (short_machines.h).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "monitoring/model/snapshot.h"
#include "monitoring/progress/evidence/processor_shares.h"
#include "monitoring/progress/slowness/short_machines.h"

namespace kintsugi::progress {

class Slowdowns {
 public:
  static constexpr size_t kReference = 60;      ///< windows that count as usual
  static constexpr size_t kLeastReference = 6;  ///< windows needed before anything counts as usual
  static constexpr uint64_t kLeastWaits = 5;    ///< waits in a window that are needed to judge it
  static constexpr size_t kMaxWaits = 65'536;
  static constexpr double kFactor = 3;  ///< slow: a multiple of the usual
  /// If most of its kind are slower by this factor, the cause is the load.
  static constexpr double kPeersFactor = 2;
  static constexpr double kLeastBlame = 0.05;  ///< excess waiting time that is needed: seconds in each second
  static constexpr int kWindows = 3;           ///< successive windows that are needed for a verdict

  /// Takes in what is new, and returns SLOW verdicts for what has been slow for kWindows windows, and HOST or RESOURCE
  /// ones for what would have been, if it had not lacked a processor.
  std::vector<proto::Verdict> update(const model::Snapshot& snapshot, const ProcessorShares& shares);

 private:
  struct Total {
    uint64_t count = 0, ns = 0;
  };
  struct Usual {
    std::deque<double> means;  ///< mean nanoseconds of a wait in earlier windows
    uint64_t count = 0;        ///< waits in the latest window
    double mean = 0, usual = 0;
    double excess = 0;  ///< excess waiting time in seconds of each second; 0: unknown
    bool fresh = false;
  };
  struct Process {
    std::map<std::pair<uint32_t, std::string>, Total> totals;  ///< key: (state, target)
    std::map<std::pair<uint32_t, std::string>, Usual> waits;
    TimePoint since{}, window_began{};
    bool known = false;
  };
  struct Blame {
    double in = 0, out = 0, factor = 1;
    double waiting = 0;       ///< mean number of tasks that wait for it
    double starved = 0;       ///< part of `in` that a lack of processor of the waiting tasks may explain
    double most_starved = 0;  ///< largest contribution of one process to `starved`
    uint64_t most_starved_waiter = 0;  ///< the process with that contribution
    TimePoint window_began{};          ///< start of the earliest window that counts here
    double worst = 0;                  ///< largest excess of a single kind of wait
    TimePoint told{};                  ///< arrival of the newest window that counts here
    uint64_t waiter = 0;
    uint32_t state = 0;
    size_t waiters = 0;
  };
  using Node = std::pair<uint64_t, std::string>;  ///< a process; with a name: a device of it
  /// How many windows in a row something has held.
  struct Rounds {
    std::map<Node, int> windows;
    std::map<Node, TimePoint> judged;  ///< the newest window that has been counted
    /// Counts one more in `next`, unless it was counted already: however long it is the newest that there is.
    int count(const Node& node, TimePoint told, Rounds& next) const;
  };

  using Blames = std::map<Node, Blame>;
  using Views = std::map<uint64_t, const model::ProcessView*>;  ///< key: process id

  void take_window(const model::ProcessView& view, TimePoint now);
  Blames blames(const model::Snapshot& snapshot, const ProcessorShares& shares) const;
  static std::vector<double> peers_of(const Node& node, const Blames& all, const Views& views);
  static proto::Verdict verdict_of(const Node& node, const Blame& blame, const Views& views);
  static double own_delay(const Node& node, const Blame& blame, const ProcessorShares& shares);

  std::map<uint64_t, Process> processes_;
  Rounds slow_, starved_;
};

}  // namespace kintsugi::progress
