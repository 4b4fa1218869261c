/// Tasks that make no progress, with what they have done: what progress analysis compares.
#pragma once

#include <string>
#include <vector>

#include "monitoring/progress/evidence/open_tasks.h"

namespace kintsugi::progress {

/// A task that makes no progress, as progress analysis sees it.
struct Standing {
  struct Count {
    uint64_t from, to;
    double times;
  };

  uint32_t task = 0;   ///< index into OpenTasks
  uint64_t state = 0;  ///< key of the state
  uint64_t trace = 0;
  std::string role;
  double progress = 0;
  bool waits_for_others = false;  ///< true for kinds of waits that another task ends
  /// Transitions of this task, sorted by seal(); empty: there were too many for its table.
  std::vector<Count> counts;

  void add(uint64_t from, uint64_t to, double times) { counts.push_back({from, to, times}); }
  void seal();
  /// REQUIRES: seal() was called after the last add().
  double count(uint64_t from, uint64_t to) const;
};

/// A task that waits so waits for other tasks.
bool waits_for_others(proto::WaitKind wait);

/// All tasks that make no progress, with their counts.
std::vector<Standing> standing_tasks(const OpenTasks& tasks);

}  // namespace kintsugi::progress
