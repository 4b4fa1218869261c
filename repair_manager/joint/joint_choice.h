/// A server as the joint schedule sees it, and its choice for a repair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kintsugi::repair_manager {

struct JointServer {
  bool can_help = true;  ///< alive
  bool can_receive = true;
  double rate = 1;         ///< of its link, in any unit
  uint32_t helping = 0;    ///< parts of chunks that it helps with already
  uint32_t receiving = 0;  ///< parts of sums that it receives already: as helper or destination
};

/// The helpers of some parts of a chunk.
struct JointChain {
  std::vector<uint32_t> helpers;  ///< positions in the repair's candidates; first the one next to the
                                  ///< destination
  uint64_t parts = 0;             ///< bits, of kChunkParts
};

struct JointChoice {
  size_t repair = 0;
  std::vector<JointChain> chains;  ///< each part is in one
  uint32_t destination = 0;        ///< a server
};

}  // namespace kintsugi::repair_manager
