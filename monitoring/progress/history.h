/// What History holds.
#pragma once

#include <set>

#include "monitoring/progress/diagnosis.h"

namespace kintsugi::progress {

struct History::State {
  std::set<uint64_t> wanted;  ///< processes that are asked for everything that is open in them
};

}  // namespace kintsugi::progress
