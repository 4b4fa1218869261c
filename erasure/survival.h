/// Survival: which losses a stripe survives. Counts chunks by their roles; no matrix is looked at.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "erasure/policy.h"

namespace kintsugi::erasure {

/// Sets of chunks are masks (erasure/chunk_mask.h) of chunks that exist.
class Survival {
 public:
  explicit Survival(const Policy& policy);

  /// The largest f such that any f of the available chunks may be lost and all is still decodable. Negative: it is not.
  int spare(uint32_t available) const;

  bool decodable(uint32_t available) const { return spare(available) >= 0; }
  /// Each of `lost` can be had from `available`: by decoding everything, or from its local group alone.
  bool repairable(std::span<const uint32_t> lost, uint32_t available) const;
  /// None is missing, or whichever chunk is lost next leaves the stripe decodable.
  bool may_lack(uint32_t missing) const;

  /// The other members of the local group of `chunk` are all available. False when it is in no group.
  bool has_local_group(uint32_t chunk, uint32_t available) const;
  /// The members of the local group of `chunk`, itself included. 0: it is in none.
  uint32_t local_group(uint32_t chunk) const;

 private:
  int local_spare(uint32_t available) const;

  Policy policy_;
  std::vector<uint32_t> groups_;  ///< the chunks of each local group
};

}  // namespace kintsugi::erasure
