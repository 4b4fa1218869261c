/// Plans of repairs, moves and degraded reads, and wishes that a requester may have.
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
  ServerId old_server;        ///< server that has or had the chunk; none: no server
  ServerId destination;       ///< none: the reading client
  runtime::Endpoint address;  ///< address of the destination
  uint64_t bytes = 0;         ///< bytes that arrive there: the chunk, or the range that is read
};

struct RepairPlan {
  RepairId id;
  StripeId stripe;
  PlanKind kind = proto::RepairRecord::REPAIR;
  std::string policy;
  /// Never empty. The first one is the root of the tree and has the longest chunk.
  std::vector<RepairTarget> targets;
  std::vector<ServerId> helpers;        ///< servers that read a chunk, each once
  std::vector<uint32_t> helper_chunks;  ///< index of each helper's chunk
  std::vector<double> helper_shares;    ///< each helper's share of the slices
  Choice choice;                        ///< shape, slice size and estimated duration
  size_t trees = 1;                     ///< number of trees among which the slices are split
  double plan_seconds = 0;              ///< time that planning took; filled in by RepairPlanner
  proto::RepairChunkRequest request;    ///< only for a repair or a move: the request to targets.front()
  proto::SumPlan sum_plan;              ///< only for a degraded read

  ChunkId chunk() const { return {stripe, targets.front().index}; }
};

/// Wishes of the requester of a repair. A plan that cannot have them fails.
struct PlanWishes {
  Shape shape = Shape::AUTO;
  uint64_t slice_bytes = 0;  ///< 0: the default
  ServerId destination;      ///< destination of the first lost chunk; none: the best one
  /// `destination` is refused if its rack would hold too much of the stripe.
  bool keep_racks = false;
  /// Chunks that may help, in this order and no others; empty: all, the best first. Ones that are not needed
  /// are left out. In a chain the first one is next to the root.
  std::vector<uint32_t> helpers;
  /// Exactly these trees, of positions in `helpers`, all of which take part; none: by the shape. For one lost
  /// chunk of a code where any k will do.
  TreeSet trees;
};

}  // namespace kintsugi::repair_manager
