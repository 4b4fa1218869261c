/// From lost chunks to the request that rebuilds them, from a chunk to the one that copies it, and from a range of a
/// lost chunk to the tree that a reading client needs.
#pragma once

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "repair_manager/plan/repair_plan.h"
#include "repair_manager/plan/selection.h"
#include "repair_manager/trees/cost_model.h"
#include "repair_manager/view/cluster_view.h"

namespace kintsugi::repair_manager {

/// The things that a plan is made with, apart from the stripe and the servers.
struct PlanBasis {
  LinkModel link;
  const ClusterView& view;  ///< signs capabilities and knows the pending deletions
  WallTime expiry;          ///< when the plan's capabilities expire
  RepairId id;              ///< id of the plan
};

/// Bytes [offset, offset + length) of a chunk.
struct ByteRange {
  uint64_t offset = 0, length = 0;
};

/// Rebuilds all of `input.lost` in one pass. The helpers' multiplications are those of the erasure code's repair
/// equation. Errors: those of rank_helpers and select_destination; kInvalidArgument: no such policy or chunk.
Result<RepairPlan> make_plan(const SelectionInput& input, const PlanWishes& wishes, const PlanBasis& basis);

/// Copies `input.lost`, one chunk that is available, to another server: a tree of one helper with coefficient 1.
/// Errors: as make_plan; kLimitExceeded also when the chunk's server is busy or suspect.
Result<RepairPlan> make_move_plan(const SelectionInput& input, const PlanWishes& wishes,
                                  const PlanBasis& basis);

/// Reads the range of `input.lost`, one chunk, for a client that is the repair site. The plan has no destination.
/// Servers at their limit of repairs are used when others do not suffice: nobody waits for a slot to read.
/// kInvalidArgument: no such range.
Result<RepairPlan> make_read_plan(const SelectionInput& input, const PlanWishes& wishes, ByteRange range,
                                  const PlanBasis& basis);

}  // namespace kintsugi::repair_manager
