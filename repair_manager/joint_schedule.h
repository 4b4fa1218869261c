/// Which repairs begin now, with which helpers and on which destinations, so that all links are equally
/// loaded.
///
/// m-PPR's greedy choice (algorithm 5) takes one lost chunk after another; early choices then force late ones
/// onto busy servers, and a chain is as slow as its most loaded hop. Here many lost chunks are looked at
/// together. Every chunk that is repaired by a chain of h helpers sends h chunks over uplinks and receives h
/// over downlinks: all helpers send, all but the leaf receive, and so does the destination. So the task is to
/// give each server as many repairs as its link can carry in the same time, and no more:
///
///   - Each server has a capacity: the repairs it may help at once at this fill level, by its share of the
///     links' rates. Helpers are assigned as a bipartite matching (repair -> h servers out of the holders of
///     its chunks) with augmenting paths: a repair whose holders are full is let in by moving others to other
///     holders. Repairs are let in one by one, in the order given; one that does not fit even so is passed
///     over.
///   - When all that is left fits below the highest level, all of it begins at the lowest level at which it
///     fits: the end of the work is evenly spread. Otherwise half of the level is filled, and what comes free
///     is filled again as repairs end. Nothing waits for a whole round to end.
///   - Downloads are evened out by who is the leaf (whoever has most to receive) and by the destination
///   (whoever
///     has least).
///
/// (Balancing uploads and downloads over nodes and then filling the links is the idea of RepairBoost,
/// ATC'21.) Pure functions: the same input gives the same schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace kintsugi::repair_manager {

struct JointServer {
  bool can_help = true;  ///< alive
  bool can_receive = true;
  double rate = 1;         ///< of its link, in any unit
  uint32_t helping = 0;    ///< repairs it helps already
  uint32_t receiving = 0;  ///< sums it receives already: as helper or destination
};

struct JointRepair {
  std::vector<uint32_t> candidates;  ///< servers that hold helper chunks, each once
  uint32_t needed = 0;               ///< so many of them
};

struct JointChoice {
  size_t repair = 0;
  std::vector<uint32_t> helpers;  ///< positions in its candidates; first the one next to the destination
  uint32_t destination = 0;       ///< a server
};

struct JointLimits {
  uint32_t level = 8;  ///< repairs a server of typical rate helps at once while more wait
  uint32_t most = 16;  ///< and at most, at the end
  size_t waiting = 0;  ///< repairs that wait in all, if more than are given
};

/// `may_receive(repair, server)`: the server can be that repair's destination. Repairs that do not fit now
/// are not in the answer.
std::vector<JointChoice> schedule_jointly(
    std::span<const JointServer> servers, std::span<const JointRepair> repairs, const JointLimits& limits,
    const std::function<bool(size_t repair, uint32_t server)>& may_receive);

}  // namespace kintsugi::repair_manager
