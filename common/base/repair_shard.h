/// The shares of the stripes that repair managers have.
#pragma once

#include <cstdint>

#include "common/base/hash.h"
#include "common/base/ids.h"

namespace kintsugi {

inline constexpr uint32_t kRepairShards = 64;

/// The shard of a stripe: all its repairs are one manager's. The metaserver and the managers each compute it for
/// themselves, so all daemons of a cluster must agree.
constexpr uint32_t repair_shard(StripeId stripe) {
  return static_cast<uint32_t>(mix_bits(stripe.value) % kRepairShards);
}

}  // namespace kintsugi
