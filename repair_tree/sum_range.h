/// The range of a chunk that a tree sums up, cut into slices.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/crc32c.h"
#include "common/base/status.h"

namespace kintsugi::repair_tree {

/// Sums of one node are held in memory as slices: sums * slice_bytes is bounded by this.
inline constexpr uint64_t kMaxSliceMemoryBytes = 256ull << 20;
/// Of a chunk, and so of a sum.
inline constexpr uint64_t kMaxSumBytes = 256ull << 20;

struct SumRange {
  uint64_t offset = 0;  ///< in the chunk; a multiple of kBlockBytes
  uint64_t length = 0;
  uint64_t slice_bytes = 0;  ///< a multiple of kBlockBytes, or all of the range
  uint32_t sums = 1;         ///< lost chunks

  /// Slices are rounded up to whole blocks. kInvalidArgument, kLimitExceeded.
  static Result<SumRange> make(uint64_t offset, uint64_t length, uint64_t slice_bytes, uint32_t sums);

  size_t slices() const { return length == 0 ? 0 : (length + slice_bytes - 1) / slice_bytes; }
  /// Relative to `offset`.
  uint64_t begin_of(size_t slice) const { return slice * slice_bytes; }
  uint64_t bytes_of(size_t slice) const { return std::min(slice_bytes, length - begin_of(slice)); }
};

}  // namespace kintsugi::repair_tree
