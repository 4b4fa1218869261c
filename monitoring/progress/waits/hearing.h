/// Processes whose messages do not reach each other: what is to blame when a callee shows nothing of a request.
///
/// A request may be missing at its callee because that serves nobody, because nothing comes through between the two,
/// or because one message was lost. Whether the callee has begun to serve others since the request was made tells these
/// apart: if not, the callee alone is named. Requests that were given up count, too: most callers do not wait for as
/// long as it takes to be sure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "monitoring/progress/evidence/evidence.h"

namespace kintsugi::progress {

class Hearing {
 public:
  enum class What : uint8_t {
    kUnclear,    ///< no conclusion is possible yet
    kNotServed,  ///< the callee serves nobody
    kLink,       ///< nothing passes between the two, or a message was lost
  };
  struct Finding {
    What what = What::kUnclear;
    const char* why = "";
    /// kLink: neither of the two hears the other, and nobody else misses either of them. Otherwise one of them may be
    /// at fault.
    bool mutual = false;
  };

  /// The parameters outlive this.
  Hearing(const OpenTasks& tasks, const Evidence& evidence);

  /// The task's request to process `callee`, which shows everything that is open in it, and has no task for this.
  Finding of_open(uint32_t task, int callee) const;
  /// A request that was given up. One caller alone never makes it kNotServed: the callee was not asked for everything
  /// meanwhile.
  Finding of_given_up(const EndedWait& call, int caller, int callee) const;

 private:
  /// Neither of the two hears the other, and nobody else misses, or is missed by, one of them: else it would be cut
  /// off from more than a link.
  bool is_broken(int one, int other) const;

  const OpenTasks& tasks_;
  const Evidence& evidence_;
  /// Key: address. Processes whose requests there have no task.
  std::unordered_map<std::string, std::set<int>> unserved_;
  std::set<std::pair<int, int>> broken_;  ///< pairs with the smaller index first
  std::map<int, std::set<int>>
      missed_by_;  ///< key: callee; its callers that heard nothing, also of what they gave up
};

}  // namespace kintsugi::progress
