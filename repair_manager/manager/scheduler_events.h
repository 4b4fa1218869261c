/// The events that the parts of a repair manager tell its scheduler.
#pragma once

#include <string>

#include "common/base/ids.h"

namespace kintsugi::repair_manager {

class SchedulerEvents {
 public:
  virtual ~SchedulerEvents() = default;

  /// The chunk is missing or corrupt where it should be. With `delay_ok` its repair waits out the repair delay.
  virtual void chunk_lost(ChunkId chunk, std::string why, bool delay_ok) = 0;
  /// Slots became free or the queue changed: the scheduler takes a turn.
  virtual void wake() = 0;
};

}  // namespace kintsugi::repair_manager
