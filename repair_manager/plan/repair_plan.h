/// What is to be done for a repair, a move or a degraded read, and what somebody may wish of it.
#pragma once

#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/proto/chunk.pb.h"
#include "common/proto/repair.pb.h"
#include "common/runtime/network.h"
#include "repair_manager/trees/cost_model.h"
#include "repair_manager/trees/tree_plan.h"

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

}  // namespace kintsugi::repair_manager
