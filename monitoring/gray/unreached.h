/// Processes that report, and that others do not reach: new connections to them are dropped, or long messages vanish
/// (an MTU that a switch on the way does not carry). Chunkservers ask each other every few seconds by connections of
/// their own (chunkserver/service/peer_check.h); here their counts are put together. Not thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/proto/sight.pb.h"
#include "monitoring/gray/recent_growth.h"

namespace kintsugi::gray {

struct UnreachedSettings {
  Duration over = std::chrono::seconds(40);  ///< checks of so much time count
  uint64_t failed = 3;                       ///< checks that must have failed,
  size_t callers = 2;                        ///< of so many callers,
  double share = 0.6;                        ///< and so many of all
  double clear = 0.3;
  size_t sure_callers = 3;  ///< with so many, and share_sure of all failed, it is certain
  double share_sure = 0.85;
};

/// What one process counted of checks of one address, since its start.
struct Checks {
  uint64_t process = 0;  ///< the caller
  std::string caller, of_address;
  uint64_t checks = 0, unconnected = 0, cut = 0;
  TimePoint at{};  ///< when this was reported
};

class UnreachedWatch {
 public:
  explicit UnreachedWatch(UnreachedSettings settings = {}) : settings_(settings) {}

  void look(const std::vector<Checks>& totals, TimePoint now);
  /// An UNREACHED verdict for each address that is not reached, which stands in `server`: it is for the caller to name
  /// it, and to know whether it runs at all.
  std::vector<proto::Verdict> alarms(TimePoint now) const;

 private:
  struct Pair {
    std::string caller;
    RecentGrowth checks, unconnected, cut;
  };
  struct Alarm {
    TimePoint since{};
    uint64_t checks = 0, failed = 0, unconnected = 0;
    std::vector<std::string> callers;  ///< whose checks failed
  };
  /// Callers that did not reach most of those whom they asked: it may be their own network.
  std::set<uint64_t> cut_off_callers(TimePoint from) const;
  Alarm sum(const std::map<uint64_t, Pair>& callers, TimePoint from, const std::set<uint64_t>& without) const;

  UnreachedSettings settings_;
  std::map<std::string, std::map<uint64_t, Pair>> pairs_;  ///< key: address; then the caller's process
  std::map<std::string, Alarm> alarms_;
};

}  // namespace kintsugi::gray
