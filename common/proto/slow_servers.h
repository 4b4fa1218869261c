/// Which of several servers that others had better avoid is the worst.
#pragma once

#include <limits>

#include "common/proto/sight.pb.h"

namespace kintsugi::proto {

/// A server that does not work at all (it has no factor) is worse than one that is slow.
inline double badness(const SlowServer& slow) {
  return slow.factor() > 0 ? slow.factor() : std::numeric_limits<double>::infinity();
}

}  // namespace kintsugi::proto
