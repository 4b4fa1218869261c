/// From a lost chunk to the RepairChunk request that rebuilds it.
#pragma once

#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/chunk.pb.h"
#include "repair_manager/cluster_view.h"
#include "repair_manager/cost_model.h"
#include "repair_manager/selection.h"

namespace kintsugi::repair_manager {

struct RepairPlan {
  RepairId id;
  ChunkId chunk;
  std::string policy;
  ServerId old_server;  ///< where the chunk was; none: nowhere
  ServerId destination;
  runtime::Endpoint destination_address;
  std::vector<ServerId> helpers;        ///< best first
  std::vector<uint32_t> helper_chunks;  ///< index of each helper's chunk
  uint64_t chunk_bytes = 0;
  Choice choice;            ///< shape, slice size and estimated duration
  double plan_seconds = 0;  ///< filled in by the caller
  proto::RepairChunkRequest request;
};

/// What the requester of a repair insists on.
struct PlanWishes {
  Shape shape = Shape::kAuto;
  uint64_t slice_bytes = 0;  ///< 0: the default
  ServerId destination;      ///< none: the best one
};

/// The helpers' multiplications are those of the erasure code's repair equation; capabilities expire at
/// `expiry`. Errors: those of select_helpers and select_destination; kInvalidArgument: no such policy or
/// chunk.
Result<RepairPlan> make_plan(const SelectionInput& input, const PlanWishes& wishes, const LinkModel& link,
                             const ClusterView& view, WallTime expiry, RepairId id);

/// Who is to blame for a failed attempt, as far as its status tells.
struct Blame {
  ServerId helper;            ///< named by the status
  uint32_t helper_chunk = 0;  ///< its chunk
  bool destination = false;
  bool unknown_helper = false;  ///< one of them, or the way from it
};
Blame find_blame(const Status& status, const RepairPlan& plan);

}  // namespace kintsugi::repair_manager
