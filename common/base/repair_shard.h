/// How the stripes are shared out among repair managers.
#pragma once

#include <cstdint>

#include "common/base/hash.h"
#include "common/base/ids.h"

namespace kintsugi {

inline constexpr uint32_t kRepairShards = 64;

/// The shard of a stripe: all its repairs are one manager's. The metaserver and the managers compute it each for itself,
/// so all of a cluster must agree.
constexpr uint32_t repair_shard(StripeId stripe) {
  return static_cast<uint32_t>(mix_bits(stripe.value) % kRepairShards);
}

}  // namespace kintsugi
