/// Who is to blame for a failed attempt, and is to be avoided by the next ones.
#pragma once

#include "common/base/status.h"
#include "repair_manager/plan/make_plan.h"

namespace kintsugi::repair_manager {

/// All false and none: nobody is to blame, or nobody can tell.
struct Blame {
  ServerId helper;              ///< culprit of the status
  uint32_t helper_chunk = 0;    ///< index of the helper's chunk
  ServerId other_destination;   ///< culprit of the status: a destination that is not the root
  bool destination = false;     ///< the root
  bool unknown_helper = false;  ///< one of the helpers, or the way from it
};

/// Decides by the status's culprit; without one by its code: kCancelled and kConflict (the world changed meanwhile)
/// blame nobody, kCorrupt some helper, kDeadlineExceeded a helper or the root, all others the root.
Blame find_blame(const Status& status, const RepairPlan& plan);

}  // namespace kintsugi::repair_manager
