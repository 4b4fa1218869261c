/// From lost chunks to the request that rebuilds them, from a chunk to the one that copies it, and from a
/// range of a lost chunk to the tree that a reading client needs.
#pragma once

#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/chunk.pb.h"
#include "repair_manager/plan/selection.h"
#include "repair_manager/trees/cost_model.h"
#include "repair_manager/view/cluster_view.h"

namespace kintsugi::repair_manager {

using PlanKind = proto::RepairRecord::Kind;

/// A chunk that the plan makes.
struct RepairTarget {
  uint32_t index = 0;
  ServerId old_server;        ///< where the chunk is or was; none: nowhere
  ServerId destination;       ///< none: the reading client
  runtime::Endpoint address;  ///< of the destination
  uint64_t bytes = 0;         ///< that arrive there: the chunk, or the range that is read
};

struct RepairPlan {
  RepairId id;
  StripeId stripe;
  PlanKind kind = proto::RepairRecord::REPAIR;
  std::string policy;
  std::vector<RepairTarget> targets;    ///< never empty; first: the root of the tree, the longest chunk
  std::vector<ServerId> helpers;        ///< servers that read a chunk, each once
  std::vector<uint32_t> helper_chunks;  ///< index of each helper's chunk
  std::vector<double> helper_shares;    ///< of the slices, for each helper
  Choice choice;                        ///< shape, slice size and estimated duration
  size_t trees = 1;                     ///< over how many the slices are split
  double plan_seconds = 0;              ///< filled in by the caller
  proto::RepairChunkRequest request;    ///< kRepair, kMove: for targets.front()
  proto::SumPlan sum_plan;              ///< kRead

  ChunkId chunk() const { return {stripe, targets.front().index}; }
};

/// What the requester of a repair insists on.
struct PlanWishes {
  Shape shape = Shape::AUTO;
  uint64_t slice_bytes = 0;  ///< 0: the default
  ServerId destination;      ///< of the first lost chunk; none: the best one
  bool keep_racks = false;   ///< that one only if the stripe comes not to stand too crowded in its rack
  /// Chunks that may help, in this order and no others; empty: all, the best first. Ones that are not needed
  /// are left out. In a chain the first one is next to the root.
  std::vector<uint32_t> helpers;
  /// Exactly these trees, of positions in `helpers`, all of which take part; none: by the shape. For one lost
  /// chunk of a code where any k will do.
  TreeSet trees;
};

/// Rebuilds all of `input.lost` in one pass. The helpers' multiplications are those of the erasure code's
/// repair equation; capabilities expire at `expiry`. Errors: those of select_helpers and select_destination;
/// kInvalidArgument: no such policy or chunk.
Result<RepairPlan> make_plan(const SelectionInput& input, const PlanWishes& wishes, const LinkModel& link,
                             const ClusterView& view, WallTime expiry, RepairId id);

/// Copies `input.lost`, one chunk that is available, to another server: a tree of one helper with coefficient
/// 1. Errors: as make_plan; kLimitExceeded also when the chunk's server is busy or suspect.
Result<RepairPlan> make_move_plan(const SelectionInput& input, const PlanWishes& wishes,
                                  const LinkModel& link, const ClusterView& view, WallTime expiry,
                                  RepairId id);

/// Bytes [offset, offset + length) of `input.lost`, one chunk, for a client that is the repair site. The plan
/// has no destination. Servers at their limit of repairs are used when others do not suffice: nobody waits
/// for a slot to read. kInvalidArgument: no such range.
Result<RepairPlan> make_read_plan(const SelectionInput& input, const PlanWishes& wishes, uint64_t offset,
                                  uint64_t length, const LinkModel& link, const ClusterView& view,
                                  WallTime expiry, RepairId id);

}  // namespace kintsugi::repair_manager
