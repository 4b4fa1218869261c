/// The range of a sub-chunk that a tree sums up, and how it is cut into slices.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/crc32c.h"
#include "common/base/math.h"
#include "common/base/status.h"
#include "common/proto/chunk.pb.h"

namespace kintsugi::partial_sum {

/// Memory of all sums of one slice.
inline constexpr uint64_t kMaxSliceMemoryBytes = 256ull << 20;
/// Length of a chunk, and so of a sum.
inline constexpr uint64_t kMaxSumBytes = 256ull << 20;
/// Running sums of a node: as many for every lost chunk as the code has rows.
inline constexpr uint32_t kMaxSums = 128;
/// Sub-chunks (rows of the code) of a chunk.
inline constexpr uint32_t kMaxRows = 8;

/// A choice of slices: slice i is in it when bit (i mod period) is set; with period 0 all are.
struct SliceMask {
  static constexpr uint32_t kMaxPeriod = 64;
  uint32_t period = 0;
  uint64_t bits = 0;

  bool all() const { return period == 0; }
  bool carries(size_t slice) const { return period == 0 || (bits >> (slice % period) & 1) != 0; }
  bool operator==(const SliceMask&) const = default;
};

/// Offsets and lengths are those of a sub-chunk. With rows = 1 that is the chunk; otherwise it is the
/// concatenation of one sub-cell (cell_bytes / rows) of each cell.
struct SumRange {
  uint64_t offset = 0;  ///< a multiple of kBlockBytes, and of a sub-cell
  uint64_t length = 0;
  uint64_t slice_bytes = 0;  ///< a multiple of the same units, or the whole range
  uint32_t sums = 1;
  uint32_t rows = 1;
  uint64_t cell_bytes = 0;  ///< only used when rows > 1
  SliceMask mask;           ///< the slices that the tree carries

  /// A range with rows = 1. Slices are rounded up to whole blocks, or sub-cells. kInvalidArgument, kLimitExceeded.
  static Result<SumRange> make(uint64_t offset, uint64_t length, uint64_t slice_bytes, uint32_t sums);
  /// Makes the same check with the rows and the mask of the request.
  static Result<SumRange> make(const proto::PartialSumRequest& request, uint32_t sums);

  uint64_t sub_cell_bytes() const { return rows > 1 ? cell_bytes / rows : kBlockBytes; }
  size_t slices() const { return length == 0 ? 0 : divide_up(length, slice_bytes); }
  /// An unsliced tree forwards nothing before everything is summed up.
  bool sliced() const { return slices() > 1; }
  /// Where the slice begins, relative to `offset`.
  uint64_t begin_of(size_t slice) const { return slice * slice_bytes; }
  uint64_t bytes_of(size_t slice) const { return std::min(slice_bytes, length - begin_of(slice)); }

  /// How many slices the tree carries, and the `ordinal`th of them.
  size_t carried_slices() const;
  size_t carried_slice(size_t ordinal) const;
};

}  // namespace kintsugi::partial_sum
