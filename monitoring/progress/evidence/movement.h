/// When something last moved at a process: between it and a peer or a device, and in what it serves. From counters
/// that reports hold.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "monitoring/model/snapshot.h"

namespace kintsugi::progress {

/// Bounded; processes that are gone are forgotten. Not thread-safe.
class Movement {
 public:
  static constexpr size_t kMaxCounters = 262'144;

  void observe(const model::Snapshot& snapshot);

  /// True when a change was seen after `since`. What had never been told before is no change.
  bool moved_after(uint64_t process, const std::string& name, TimePoint since) const;
  /// The time since the process last began to serve anything, as far as it has told; nullopt: it is not known.
  std::optional<Duration> idle(uint64_t process, TimePoint now) const;
  /// True when the process began to serve some request later than `since`: two reports that both came after it show so.
  bool served_after(uint64_t process, TimePoint since) const;
  /// True when the process began to serve something after `since`, and nothing for much longer before that than it
  /// usually does: it was deaf. What was sent to it in that while may still be on its way, since TCP repeats what was
  /// lost ever more seldom.
  bool resumed_after(uint64_t process, TimePoint since) const;

 private:
  struct Counter {
    uint64_t value = 0;
    TimePoint moved{};
    bool changed = false;  ///< false: it was only seen for the first time
  };
  /// Requests that a process has begun to serve, by its roles' names.
  struct Served {
    struct Role {
      uint64_t begun = 0;
      TimePoint told{};
    };
    TimePoint seen{};  ///< time of its first report
    std::map<std::string, Role> roles;
    std::optional<TimePoint> grew_since;  ///< a count has grown since this time
    std::optional<TimePoint> grew;        ///< time of the report that told of the latest growth
    std::deque<Duration> pauses;          ///< the last ones between two growths, oldest first
    std::optional<TimePoint> resumed;  ///< time of the latest growth that came after an unusually long pause

    bool is_unusual(Duration pause) const;
  };

  void count(const model::ProcessView& view);
  void count_served(const model::ProcessView& view);

  std::map<std::pair<uint64_t, std::string>, Counter> counters_;
  std::map<uint64_t, Served> served_;  ///< key: process id; only processes of the last snapshot
};

}  // namespace kintsugi::progress
