/// Moves for balance that came to nothing, and for how long no others like them are wanted.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/runtime/clock.h"

namespace kintsugi::metaserver {

/// A source and a target between which moves fail are left alone for a time that doubles from kFirst to kMost with
/// each failure after that time. A target that fails with kSources of them is left alone by all. A move that succeeds
/// ends it.
class MoveBackoff {
 public:
  static constexpr Duration kFirst = std::chrono::minutes(1);
  static constexpr Duration kMost = std::chrono::minutes(15);
  static constexpr size_t kSources = 2;

  /// Returns for how long the two are left alone from now on; zero when they are already.
  Duration failed(ServerId from, ServerId to, TimePoint now);
  void succeeded(ServerId from, ServerId to) { pairs_.erase({to, from}); }
  bool left_alone(ServerId from, ServerId to, TimePoint now) const;
  bool target_left_alone(ServerId to, TimePoint now) const;

  struct Held {
    TimePoint until;
    std::vector<ServerId> from;  ///< only moves from these servers are refused; empty: all moves
  };
  /// The moves to this server that are held back now, and until when the last of them is; none are: nothing.
  std::optional<Held> held_back(ServerId to, TimePoint now) const;
  /// Forgets the pairs whose time is over for long.
  void forget_old(TimePoint now);

 private:
  struct Pair {
    Duration length;
    TimePoint until;
  };
  std::map<std::pair<ServerId, ServerId>, Pair> pairs_;  ///< key: (target, source)
};

}  // namespace kintsugi::metaserver
