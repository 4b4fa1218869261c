/// What History holds.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "monitoring/progress/diagnosis.h"
#include "monitoring/progress/open_tasks.h"
#include "monitoring/progress/processor_shares.h"
#include "monitoring/progress/slowdown.h"
#include "monitoring/progress/sojourns.h"

namespace kintsugi::progress {

/// A wait that ended without what it waited for, kept so that a chain survives deadlines and retries.
struct EndedWait {
  uint64_t process = 0;
  std::string display, region, role, target;
  uint64_t trace = 0, target_span = 0, age_ns = 0;
  proto::WaitKind wait = proto::WAIT_NONE;
  std::string file, function;
  uint32_t line = 0, outcome = 0;
  TimePoint ended{};
};

struct History::State {
  static constexpr size_t kMaxEnded = 4'096;
  static constexpr size_t kMaxCounters = 262'144;
  static constexpr size_t kMaxCandidates = 4'096;

  /// Takes in what this snapshot tells about ended waits and counters, and forgets what is too old.
  void observe(const OpenTasks& tasks, const Settings& settings);
  /// Recomputed every few seconds: it reads all transitions of all processes.
  const Sojourns& sojourns(const model::Snapshot& snapshot);
  /// Since when nothing has moved between a process and one of its peers or devices; nullopt: it never said anything about it.
  std::optional<Duration> unmoved(uint64_t process, const std::string& name, TimePoint now) const;
  /// True when a change was seen, and not long ago.
  bool moved_within(uint64_t process, const std::string& name, TimePoint now, Duration within) const;

  /// As a counter of a process: the calls that it has served.
  static constexpr const char* kServed = "served calls";
  /// True when the process began to serve some request later than `since`: two reports that both came after it show so.
  bool served_after(uint64_t process, TimePoint since) const;

  std::set<uint64_t> wanted;  ///< processes that are asked for everything that is open in them
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, EndedWait>
      ended;  ///< by process, span and target's span

  struct Counter {
    uint64_t value = 0;
    TimePoint moved{};
    bool changed = false;  ///< false: it was only seen for the first time
  };
  std::map<std::pair<uint64_t, std::string>, Counter> counters;

  /// Requests that a process has begun to serve, by its roles' names.
  struct Served {
    struct Role {
      uint64_t begun = 0;
      TimePoint told{};
    };
    std::map<std::string, Role> roles;
    TimePoint grew_since{};  ///< a count has grown after this
  };
  std::map<uint64_t, Served> served;  ///< by process; of those in the last snapshot

  /// A conclusion that has to hold for several rounds.
  struct Candidate {
    int rounds = 0;
    uint64_t sequence = 0;  ///< of its process's last report that it held in
    TimePoint seen{};
  };
  std::map<uint64_t, Candidate> candidates;   ///< by identity
  std::map<uint64_t, TimePoint> stood_still;  ///< processes, and when a verdict last said that they do
  ProcessorShares shares;
  Slowdowns slowdowns;
  model::WorkerModel earlier;  ///< of other runs

 private:
  void observe_served(const model::Snapshot& snapshot);

  Sojourns sojourns_;
  TimePoint sojourns_made_{};
  size_t sojourns_of_ = 0;
};

}  // namespace kintsugi::progress
