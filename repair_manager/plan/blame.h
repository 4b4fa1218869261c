/// The servers to blame for a failed attempt, which the next attempts avoid.
#pragma once

#include "common/base/status.h"
#include "repair_manager/plan/make_plan.h"

namespace kintsugi::repair_manager {

/// All false and none: nobody is to blame, or nobody can tell.
struct Blame {
  ServerId helper;            ///< the culprit that the status names
  uint32_t helper_chunk = 0;  ///< index of that helper's chunk
  /// The culprit that the status names, if it is a destination other than the root.
  ServerId other_destination;
  bool destination = false;     ///< the root is to blame
  bool unknown_helper = false;  ///< one of the helpers or of their links is to blame, and it is unknown which
};

/// Decides by the status's culprit; without one by its code: kCancelled and kConflict (the world changed meanwhile)
/// blame nobody, kCorrupt some helper, kDeadlineExceeded a helper or the root, all others the root.
Blame find_blame(const Status& status, const RepairPlan& plan);

}  // namespace kintsugi::repair_manager
