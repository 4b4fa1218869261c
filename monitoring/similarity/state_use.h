/// What a stay in a state says of the process that stays there.
#pragma once

#include <cstdint>

#include "common/proto/sight.pb.h"

namespace kintsugi::similarity {

enum class StateUse : uint8_t {
  kWorks,   ///< the process itself works, or should
  kDevice,  ///< its disk or store works
  /// Others work, or nobody: it waits for an answer, a sibling, a timer, or new work.
  kWaits,
};

inline StateUse use_of(proto::WaitKind wait) {
  switch (wait) {
    case proto::WAIT_NONE: return StateUse::kWorks;
    case proto::WAIT_DISK:
    case proto::WAIT_STORE: return StateUse::kDevice;
    default: return StateUse::kWaits;
  }
}

}  // namespace kintsugi::similarity
