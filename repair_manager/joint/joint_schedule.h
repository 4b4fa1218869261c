/// Chooses the repairs that begin now, with which helpers and on which destinations, so that all links are
/// equally loaded.
///
/// m-PPR's greedy choice (Mitra 2016, algorithm 5) takes one lost chunk after another; early choices then force late
/// ones onto busy servers, and a chain is as slow as its most loaded hop. Here many lost chunks are looked at together.
/// Every part of a chunk that is repaired by a chain of h helpers is sent over h uplinks and received over h downlinks:
/// all helpers send, all but the leaf receive, and so does the destination. So the task is to give each server as much
/// as its link can carry in the same time, and no more:
///
///   - Each server has a capacity: what it may help with at once at this fill level, in parts of chunks, by
///     the rate of its link. Helpers are assigned by a matching (joint_matching.h). Repairs are let in one by
///     one; one that does not fit even if others move is passed over.
///   - When all that is left fits below the highest level, all of it begins at the lowest level at which it
///     fits: the end of the work is evenly spread, to a part of a chunk. Otherwise links are filled with
///     whole chunks to a level between half and three quarters of the highest, the one that leaves the least
///     of them empty (repairs that begin together on equal links end together, and what is empty stays so
///     until then); as servers fill up, the repairs that help on the emptiest ones come first. What comes
///     free is filled again as repairs end. Nothing waits for a whole round to end.
///   - A repair whose holders help with different parts of the chunk has a chain for each set of helpers.
///   - Downloads are evened out by who is the leaf (whoever has most to receive) and by the destination
///     (whoever has least).
///
/// (Balancing uploads and downloads over nodes and then filling the links is the idea of RepairBoost, ATC'21.) Pure
/// functions: the same input gives the same schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "repair_manager/joint/joint_choice.h"
#include "repair_manager/joint/joint_matching.h"
#include "repair_manager/plan/options.h"

namespace kintsugi::repair_manager {

struct JointLimits {
  /// While more repairs wait, a server of typical rate helps with at least so many chunks.
  uint32_t level = 8;
  /// At the end, when no more repairs wait, it helps with at most so many.
  uint32_t most = 16;
  size_t waiting = 0;  ///< all waiting repairs, if more than are passed in
  /// Duration of a repair that has a chain for each part, relative to one with one chain at the same rate.
  double split_cost = 1;
};

/// `may_receive(repair, server)`: the server can be that repair's destination. Repairs that do not fit now
/// are not in the answer. At most kMaxHelpers candidates a repair.
std::vector<JointChoice> schedule_jointly(
    std::span<const JointServer> servers, JointRepairs repairs, const JointLimits& limits,
    const std::function<bool(size_t repair, uint32_t server)>& may_receive);

}  // namespace kintsugi::repair_manager
