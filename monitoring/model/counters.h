/// Counters in the reports of processes.
#pragma once

#include <cstdint>

namespace kintsugi::model {

/// Returns by how much a counter grew; 0 if it fell: then it belongs to another life of the process, or is garbage.
inline double grown(uint64_t from, uint64_t to) {
  return to > from ? static_cast<double>(to - from) : 0.0;
}

}  // namespace kintsugi::model
