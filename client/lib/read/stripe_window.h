/// A window together with the stripe that it is cut from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "client/lib/read/window_plan.h"
#include "common/proto/types.pb.h"
#include "erasure/layout.h"
#include "erasure/policy.h"

namespace kintsugi::client {

struct StripeWindow {
  /// The stripe, with the addresses and capabilities that reading takes.
  std::shared_ptr<const proto::Stripe> stripe;
  erasure::Policy policy;  ///< policy of the stripe
  Window window;

  /// Bytes of the chunk that lie within the window: 0 when it ends before.
  uint64_t chunk_bytes(uint32_t chunk) const {
    const uint64_t end = std::min(erasure::chunk_length(policy, stripe->length(), chunk), window.chunk_end);
    return end > window.chunk_begin ? end - window.chunk_begin : 0;
  }
  const proto::ChunkPlacement& placement(uint32_t chunk) const {
    return stripe->chunks(static_cast<int>(chunk));
  }
};

}  // namespace kintsugi::client
