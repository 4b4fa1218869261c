/// A server as the joint schedule sees it, and its choice for a repair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kintsugi::repair_manager {

struct JointServer {
  bool can_help = true;  ///< the server is alive
  bool can_receive = true;
  double rate = 1;         ///< rate of its link, in any unit that all servers share
  uint32_t helping = 0;    ///< parts of chunks that it already helps with
  uint32_t receiving = 0;  ///< parts of sums that it already receives, as helper or destination
};

/// The helpers of some parts of a chunk.
struct JointChain {
  /// Positions in the repair's candidates. The first one is next to the destination.
  std::vector<uint32_t> helpers;
  uint64_t parts = 0;  ///< bit mask over kChunkParts
};

struct JointChoice {
  size_t repair = 0;
  std::vector<JointChain> chains;  ///< each part belongs to exactly one chain
  uint32_t destination = 0;        ///< index of a server
};

}  // namespace kintsugi::repair_manager
