/// Waits that ended without what they waited for: a chain survives deadlines and retries by them, and a call of which nothing was heard says
/// something of the link to its callee.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "monitoring/progress/evidence/movement.h"
#include "monitoring/progress/evidence/open_tasks.h"

namespace kintsugi::progress {

struct EndedWait {
  uint64_t process = 0;
  std::string display, region, role, target;
  uint64_t trace = 0, target_span = 0, age_ns = 0;
  proto::WaitKind wait = proto::WAIT_NONE;
  std::string file, function;
  uint32_t line = 0, outcome = 0;
  TimePoint ended{};
  uint64_t callee = 0;         ///< process; 0: nobody who was there when the call was made is known
  bool heard = false;          ///< the callee has shown a task for it
  bool others_served = false;  ///< while it lasted the callee began to serve requests

  TimePoint made() const;
};

/// Bounded. Not thread-safe.
class EndedWaits {
 public:
  static constexpr size_t kMaxEnded = 4'096;
  static constexpr size_t kMaxHeard = 65'536;
  static constexpr Duration kRemember = 60s;

  /// Takes in what ended, and what callees show; forgets what ended longer than kRemember ago. `movement` has seen the snapshot.
  void observe(const OpenTasks& tasks, const Movement& movement);

  using Key = std::tuple<uint64_t, uint64_t, uint64_t>;  ///< process, span and target's span
  const std::map<Key, EndedWait>& all() const { return ended_; }

  /// A call that was given up just now after a while: its callee has shown nothing of it, nothing else was heard between the two since it was made, and
  /// neither process stood still as a whole meanwhile.
  bool is_unheard(const EndedWait& call, const Movement& movement, TimePoint now) const;

 private:
  void observe_heard(const OpenTasks& tasks);
  void observe_unwell(const OpenTasks& tasks);
  void take(const OpenTasks& tasks, uint32_t process, const proto::SightLive& record,
            const Movement& movement);

  std::map<Key, EndedWait> ended_;
  std::map<uint64_t, TimePoint>
      heard_;  ///< spans of calls that callees had tasks for, and when they did last
  /// By caller and callee: when the last of the caller's calls began that the callee has shown a task for.
  std::map<std::pair<uint64_t, uint64_t>, TimePoint> heard_by_;
  std::map<uint64_t, TimePoint>
      unwell_;  ///< processes that were silent or held by running code, and when last
};

}  // namespace kintsugi::progress
