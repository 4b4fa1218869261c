/// Processes that report, and that others do not reach: new connections to them are dropped, or long messages vanish
/// (an MTU that a switch on the way does not carry). Chunkservers ask each other every few seconds by connections of
/// their own (chunkserver/service/peer_check.h); here their outcomes are put together. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/proto/sight.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::gray {

struct UnreachedSettings {
  Duration over = std::chrono::seconds(40);  ///< checks of so much time count
  uint64_t failed = 3;                       ///< checks that must have failed,
  size_t callers = 2;                        ///< callers whose checks must have failed,
  double share = 0.6;  ///< their least share of all callers, and of those of the time `lately`
  Duration lately = std::chrono::seconds(10);
  uint64_t well = 3;  ///< checks in `lately`, all answered, after which it counts as reached again
  double clear = 0.3;
  size_t sure_callers = 3;  ///< callers that make it certain, if share_sure of all failed
  double share_sure = 0.85;
  size_t commands = 2;  ///< commands that gave up, with `clear` of the checks failed, or where nobody checks
  /// Longest time that a check takes: two answers of two seconds each.
  Duration lasts = std::chrono::seconds(4);
};

/// What a process reports of its latest checks.
struct Checks {
  uint64_t process = 0;  ///< process id of the caller
  std::string caller;
  std::vector<proto::SightCheck> latest;  ///< checks in order; what was told before counts once
  TimePoint at{};                         ///< time of the report
};

/// Whom others may reach.
struct Reachable {
  TimePoint since{};  ///< time at which the present process was heard first
  bool reports = false;
};

/// What a command that ends, or an application, says of one whom it asked.
struct Attempt {
  uint64_t process = 0;  ///< process id of the caller
  std::string caller, peer;
  bool given_up = false;  ///< whether the caller gave up; false: the peer answered
  Duration waited{};      ///< how long the caller had waited by now
};

/// What began while the peer was away, or before its present process was there, is forgotten, for it says nothing of
/// the process that would be accused; so is what is older than `over`. Bounded by the number of callers, that of peers,
/// and kMostAttempts.
class UnreachedWatch {
 public:
  explicit UnreachedWatch(UnreachedSettings settings = {}) : settings_(settings) {}

  static constexpr size_t kMostAttempts = 4'096;  ///< attempts within `over` that are counted at most

  /// Before the look() of the round in which it was heard.
  void hear(Attempt attempt, TimePoint now);
  /// Takes in what all processes report, once a second. `peers` by address; for others everything counts.
  void look(const std::vector<Checks>& checks, const std::map<std::string, Reachable>& peers, TimePoint now);
  /// An UNREACHED verdict for each address that is not reached, which stands in `server`: it is for the caller to name
  /// it, and to know whether it runs at all.
  std::vector<proto::Verdict> alarms(TimePoint now) const;

 private:
  struct Event {
    TimePoint at, began;
    uint64_t process;  ///< process id of the caller
    std::string caller, peer;
    proto::SightCheck::Outcome outcome;
    bool by_command = false;
    bool failed() const { return outcome != proto::SightCheck::ANSWERED; }
  };
  struct Alarm {
    TimePoint since{};
    uint64_t checks = 0, failed = 0, unconnected = 0;
    uint64_t checks_lately = 0, failed_lately = 0;
    std::map<uint64_t, std::string> callers;  ///< names of callers whose checks failed, by process
    std::set<std::string> commands;           ///< commands that gave up
    double share() const {
      return checks == 0 ? 0 : static_cast<double>(failed) / static_cast<double>(checks);
    }
  };
  struct Told {
    uint64_t number = 0;  ///< number of the latest check that was taken in
    TimePoint at{};       ///< time of the caller's latest report
  };
  void take(const std::vector<Checks>& checks, TimePoint now);
  void forget(const std::map<std::string, Reachable>& peers, TimePoint now);
  /// Callers that did not reach most of those whom they asked: it may be their own network.
  std::set<uint64_t> cut_off_callers() const;
  /// Sums up the evidence on each address, without what these callers found.
  std::map<std::string, Alarm> sum(const std::set<uint64_t>& without, TimePoint now) const;
  bool is_alarm(const Alarm& alarm, bool before) const;

  UnreachedSettings settings_;
  std::map<uint64_t, Told> told_;           ///< key: caller
  std::map<std::string, TimePoint> there_;  ///< time since which the peer at an address has been there
  size_t attempts_ = 0;                     ///< number of events_ that are attempts of commands
  std::deque<Event> events_;                ///< events of the last `over`, the oldest first
  std::map<std::string, Alarm> alarms_;
};

}  // namespace kintsugi::gray
