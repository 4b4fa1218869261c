/// Sets of chunks of a stripe as masks: bit i is chunk i.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "erasure/policy.h"

namespace kintsugi::erasure {

static_assert(kMaxChunks <= 32, "sets of chunks are masks of 32 bits");

inline uint32_t mask_of(std::span<const uint32_t> indices) {
  uint32_t mask = 0;
  for (const uint32_t index : indices)
    mask |= uint32_t{1} << index;
  return mask;
}

inline bool contains(uint32_t mask, uint32_t index) {
  return (mask >> index & 1) != 0;
}

/// The chunks of a set, ascending.
inline std::vector<uint32_t> indices_of(uint32_t mask) {
  std::vector<uint32_t> indices;
  for (; mask != 0; mask &= mask - 1)
    indices.push_back(static_cast<uint32_t>(std::countr_zero(mask)));
  return indices;
}

}  // namespace kintsugi::erasure
