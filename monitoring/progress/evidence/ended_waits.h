/// Waits that ended without what they waited for: a chain survives deadlines and retries by them, and a call of which
/// nothing was heard says something of the link to its callee.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "monitoring/progress/evidence/movement.h"
#include "monitoring/progress/evidence/open_tasks.h"
#include "monitoring/progress/evidence/unwell.h"

namespace kintsugi::progress {

struct EndedWait {
  uint64_t process = 0;
  std::string display, region, role, target;
  uint64_t trace = 0, target_span = 0, age_ns = 0;
  proto::WaitKind wait = proto::WAIT_NONE;
  std::string file, function;
  uint32_t line = 0, outcome = 0;
  TimePoint ended{};
  /// Process id; 0: no process is known that was there when the call was made.
  uint64_t callee = 0;
  bool heard = false;  ///< the callee has shown a task for the call
  /// The callee began to serve other requests during the call, without a long pause.
  bool others_served = false;

  TimePoint made() const;
};

/// Bounded. Not thread-safe.
class EndedWaits {
 public:
  static constexpr size_t kMaxEnded = 4'096;
  static constexpr size_t kMaxHeard = 65'536;
  static constexpr Duration kRemember = 60s;

  /// Takes in what ended, and what callees show; forgets what ended longer than kRemember ago. `movement` has seen the
  /// snapshot.
  void observe(const OpenTasks& tasks, const Movement& movement);

  using Key = std::tuple<uint64_t, uint64_t, uint64_t>;  ///< (process, span, span of the target)
  const std::map<Key, EndedWait>& all() const { return ended_; }

  /// A call that was given up just now after a while: its callee has shown nothing of it, nothing else was heard
  /// between the two since it was made, and neither process was unwell meanwhile.
  bool is_unheard(const EndedWait& call, const Movement& movement, const Unwell& unwell, TimePoint now) const;

 private:
  void observe_heard(const OpenTasks& tasks);
  void take(const OpenTasks& tasks, uint32_t process, const proto::SightLive& record,
            const Movement& movement);

  std::map<Key, EndedWait> ended_;
  /// Key: span of a call for which a callee had a task; value: when it last did.
  std::map<uint64_t, TimePoint> heard_;
  /// Key: caller and callee; value: begin of the caller's last call for which the callee has shown a task.
  std::map<std::pair<uint64_t, uint64_t>, TimePoint> heard_by_;
};

}  // namespace kintsugi::progress
