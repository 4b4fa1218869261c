/// How the stripes are shared out among repair managers.
#pragma once

#include <cstdint>

#include "common/base/ids.h"

namespace kintsugi {

inline constexpr uint32_t kRepairShards = 64;

/// A well-mixed hash (the finalizer of MurmurHash3).
constexpr uint64_t mix_bits(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

/// All repairs of a stripe are one manager's. Travels in plans of who does what: never change it.
constexpr uint32_t repair_shard(StripeId stripe) {
  return static_cast<uint32_t>(mix_bits(stripe.value) % kRepairShards);
}

}  // namespace kintsugi
