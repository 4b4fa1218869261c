#include "client/lib/degraded/lost_range.h"

namespace kintsugi::client {

LostRange lost_range(const proto::Stripe& stripe, uint32_t index, uint64_t begin, uint64_t end) {
  LostRange range{{stripe.stripe_id(), stripe.chunks(static_cast<int>(index)), begin, end}, {}};
  for (const proto::ChunkPlacement& chunk : stripe.chunks())
    range.holders.emplace_back(chunk.server_id());
  return range;
}

}  // namespace kintsugi::client
