/// Which servers help which repairs, each within what its link may carry: a bipartite matching (repair -> the
/// holders of its chunks) in parts of a chunk, with augmenting paths.
///
/// Different parts of a chunk can be rebuilt by different helpers, so that a holder may help with any number
/// of a chunk's parts; a repair needs `needed` holders for each part. Links are then filled to a part, where
/// whole helpers would leave them half a chunk short or over. Each repair first takes holders that have room
/// for the whole chunk; only what these cannot give is taken in parts.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "repair_manager/plan/options.h"

namespace kintsugi::repair_manager {

/// Parts into which a chunk is divided. Each costs a tree of its own where its helpers differ, so they are few.
inline constexpr uint32_t kChunkParts = 2;

struct JointRepair {
  std::vector<uint32_t> candidates;  ///< servers that hold helper chunks, each once
  uint32_t needed = 0;               ///< candidates that each part needs
};

/// Repairs that stay where they are.
using JointRepairs = std::span<const JointRepair* const>;

/// How much a server may help.
struct HelperRoom {
  uint32_t capacity = 0;  ///< most parts that it may help with, including `load`
  uint32_t load = 0;      ///< parts that it already helps with
};

class Matching {
 public:
  Matching(JointRepairs repairs, std::vector<HelperRoom> servers);

  /// Gives the repair its helpers, moving others if need be: for whole chunks, or, where these do not suffice
  /// and a part is smaller, for that many parts at a time. False, and nothing changed, when that cannot be.
  bool let_in(size_t repair, uint32_t smallest = kChunkParts);

  /// Sets the capacity of every server. A server keeps the parts that it has, even beyond it.
  void set_capacities(std::span<const uint32_t> capacities);

  /// The room of the repair's candidates together, each counted with `most` parts at most.
  uint32_t room_of(size_t repair, uint32_t most) const;
  uint32_t load(uint32_t server) const { return servers_[server].load; }
  /// Parts that each candidate helps with. REQUIRES: the repair was let in.
  std::span<const uint32_t> parts(size_t repair) const { return parts_[repair]; }

 private:
  // `parts` of `repair` that `to` helps with and `from` no longer does.
  struct Step {
    uint32_t repair, from, to, parts;
  };

  static constexpr uint32_t kNobody = UINT32_MAX;

  uint32_t room(uint32_t server) const {
    const HelperRoom& state = servers_[server];
    return state.capacity > state.load ? state.capacity - state.load : 0;
  }
  uint32_t& parts_of(uint32_t repair, uint32_t server);
  void move(const Step& step);
  void give(uint32_t repair, uint32_t server, uint32_t parts);
  void take(uint32_t repair, uint32_t server, uint32_t parts);

  std::vector<uint32_t> by_load(uint32_t repair) const;
  uint32_t augment(uint32_t repair, uint32_t most, uint32_t grain, size_t most_looks);
  bool reach(uint32_t server, uint32_t from, uint32_t by, uint32_t grain);
  uint32_t apply(uint32_t end, uint32_t most);

  JointRepairs repairs_;
  std::vector<HelperRoom> servers_;
  std::vector<std::vector<uint32_t>> helped_;  // index: server; the repairs that it helps
  // Index: repair; the parts that each of its candidates contributes.
  std::vector<std::vector<uint32_t>> parts_;
  std::vector<uint32_t> seen_, from_, by_;  // index: server; state of the current search
  uint32_t search_ = 0;
  std::deque<uint32_t> frontier_;
  std::vector<Step> steps_;  // steps for the repair that is being admitted
};

}  // namespace kintsugi::repair_manager
