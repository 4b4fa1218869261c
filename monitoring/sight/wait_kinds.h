/// What kinds of waits are.
#pragma once

#include "common/runtime/trace_recorder.h"

namespace kintsugi::sight {

/// True for what is sent to a peer or a device, which are told by what was asked of them.
inline bool is_request(runtime::WaitKind wait) {
  return wait == runtime::WaitKind::kCall || wait == runtime::WaitKind::kDisk;
}

/// True for a wait at whose end a task has got what it asked for.
inline bool is_answered(runtime::WaitKind wait) {
  return is_request(wait) || wait == runtime::WaitKind::kStore || wait == runtime::WaitKind::kJoin;
}

}  // namespace kintsugi::sight
