/// A range of one chunk of a stripe, and what it takes to ask a server for it.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "common/proto/types.pb.h"

namespace kintsugi::client {

struct ChunkRange {
  uint64_t stripe_id = 0;
  proto::ChunkPlacement chunk;  ///< as OpenRead or ShowStripe gave it: index, server, length, CRC, capability
  uint64_t begin = 0, end = 0;  ///< bytes of the chunk

  ChunkId id() const { return {StripeId{stripe_id}, chunk.index()}; }
  uint64_t bytes() const { return end - begin; }
  bool is_whole() const { return begin == 0 && end == chunk.length(); }
};

}  // namespace kintsugi::client
