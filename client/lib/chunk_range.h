/// A range of one chunk of a stripe, and what it takes to ask a server for it.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "common/proto/types.pb.h"

namespace kintsugi::client {

struct ChunkRange {
  uint64_t stripe_id = 0;
  /// The placement from OpenRead or ShowStripe: index, server, length, CRC, capability.
  proto::ChunkPlacement chunk;
  uint64_t begin = 0, end = 0;  ///< range of bytes in the chunk

  ChunkId id() const { return {StripeId{stripe_id}, chunk.index()}; }
  uint64_t bytes() const { return end - begin; }
  bool is_whole() const { return begin == 0 && end == chunk.length(); }
};

}  // namespace kintsugi::client
