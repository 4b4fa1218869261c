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

#include "monitoring/progress/evidence/evidence.h"

namespace kintsugi::progress {

class Hearing {
 public:
  enum class What : uint8_t {
    kUnclear,    ///< no conclusion is possible yet
    kNotServed,  ///< the callee serves nobody
    kLink,       ///< nothing passes between the two, or a message was lost
    kServed,     ///< the callee has served the request, and its answer did not come
  };
  struct Finding {
    What what = What::kUnclear;
    const char* why = "";
    std::string region{};  ///< kServed: what served it
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
  using Places = std::set<std::string>;

  /// What shares one way to others: a server is one, and so are all processes of a machine that nobody can call.
  std::string place_of(int process) const;
  TimePoint made(uint32_t task) const;
  /// What the callee says of it that it has served a while ago; null: nothing.
  const proto::SightServed* served(uint32_t task, int callee) const;
  void note_unheard(int caller, int callee);
  /// Neither of the two hears the other, and nobody else misses, or is missed by, one of them: else it would be cut
  /// off from more than a link.
  bool is_broken(int one, int other) const;
  /// Nobody else misses the callee, and the caller misses others, too: it may be cut off itself.
  bool misses_many_alone(int caller, int callee) const;

  const OpenTasks& tasks_;
  const Evidence& evidence_;
  std::map<int, Places> unserved_;  ///< key: callee; where callers are whose open requests have no task there
  std::map<int, Places> missed_by_;  ///< key: callee; places of callers that have no task there, or gave up
  std::map<std::string, Places> unheard_;  ///< key: a caller's place; those of the callees that it misses
};

}  // namespace kintsugi::progress
