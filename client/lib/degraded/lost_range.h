/// A range of a chunk that cannot be read from its server, and how it should be read instead.
#pragma once

#include <cstdint>
#include <vector>

#include "client/lib/chunk_range.h"
#include "common/base/ids.h"
#include "common/proto/repair.pb.h"
#include "common/proto/types.pb.h"

namespace kintsugi::client {

struct LostRange : ChunkRange {
  std::vector<ServerId> holders;  ///< servers that hold the chunks of the stripe
};

/// The range [begin, end) of the stripe's chunk. REQUIRES: the stripe has placements, with read capabilities, of all
/// its chunks.
LostRange lost_range(const proto::Stripe& stripe, uint32_t index, uint64_t begin, uint64_t end);

struct TreeWishes {
  proto::RepairShape shape = proto::RepairShape::AUTO;
  uint64_t slice_bytes = 0;  ///< 0: the planner chooses
  /// Bytes that the caller reserved for sums; a plan that needs more is not followed. 0: the read reserves what it
  /// needs, which only a caller who holds no memory may ask for.
  uint64_t window_bytes = 0;
};

}  // namespace kintsugi::client
