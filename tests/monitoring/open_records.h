/// What is open in a process, for tests.
#pragma once

#include <vector>

#include "monitoring/sight/live_work.h"

namespace kintsugi::sight {

inline std::vector<LiveRecord> open_records(const LiveWork& live) {
  std::vector<LiveRecord> records;
  LiveRecord record;
  for (uint32_t slot = 1; slot < live.records().slots(); ++slot)
    if (live.records().read(slot, record)) records.push_back(record);
  return records;
}

}  // namespace kintsugi::sight
