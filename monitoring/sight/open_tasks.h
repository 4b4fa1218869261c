/// The tasks that are open in a process, each with its stack of open records.
#pragma once

#include <vector>

#include "monitoring/sight/live_work.h"

namespace kintsugi::sight {

/// An open task with its records, the innermost first.
struct OpenTask {
  uint32_t slot = 0;
  TaskRecord task{};
  std::vector<LiveRecord> records;
  std::vector<LiveRecord> held;  ///< streams that the task holds open
  int64_t moved_ns = 0;          ///< time at which anything in the task last moved
  bool idle = false;             ///< whether the task waits for new work, and no operation waits for it
};

/// The tasks as they are now, the oldest first. Any thread may call it. A stack that changes meanwhile is given as far
/// as it was seen, and of a very deep one the innermost records.
std::vector<OpenTask> open_tasks(const LiveWork& live);

}  // namespace kintsugi::sight
