/// The shares of the stripes, and of the files to compact, that repair managers have.
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
/// The shard of a file: all its compactions are one manager's.
constexpr uint32_t repair_shard(InodeId inode) {
  return static_cast<uint32_t>(mix_bits(inode.value) % kRepairShards);
}

/// A number that names the shard, and is as random as `random` but for that. Never 0.
constexpr uint64_t ticket_of_shard(uint32_t shard, uint64_t random) {
  return (random | 1) * kRepairShards + shard;
}
constexpr uint32_t shard_of_ticket(uint64_t ticket) {
  return static_cast<uint32_t>(ticket % kRepairShards);
}

}  // namespace kintsugi
