/// The chunks from which a plan's trees are made.
#pragma once

#include <optional>
#include <vector>

#include "common/base/status.h"
#include "erasure/repair_equation.h"
#include "repair_manager/plan/repair_plan.h"
#include "repair_manager/plan/selection.h"
#include "repair_manager/trees/cost_model.h"

namespace kintsugi::repair_manager {

/// Chunks that may help, and how many of them are needed. Where any k chunks will do the pool may hold more than that:
/// different slices may be carried by different ones.
struct HelperPool {
  std::vector<uint32_t> free;          ///< empty data chunks: they help without a server
  std::vector<const ChunkView*> pool;  ///< chunks in order of preference; they live in the input's stripe
  std::vector<LinkRate> links;         ///< index: chunk of the pool; link of its server
  std::vector<uint32_t> rows_read;     ///< index: chunk of the pool; rows that are read of it
  size_t needed = 0;                   ///< how many chunks of the pool each slice needs
  /// The equation over the whole pool; set when no other helpers will do.
  std::optional<erasure::RepairEquation> equation;
};

/// Helpers for `lost`, which are the chunks of `input.lost` in the order in which the plan has them. Errors: those of
/// rank_helpers; kLimitExceeded: a wished helper cannot help now.
Result<HelperPool> pick_helpers(const SelectionInput& input, const PlanWishes& wishes, const LinkModel& link,
                                const std::vector<uint32_t>& lost, Busy busy);

}  // namespace kintsugi::repair_manager
