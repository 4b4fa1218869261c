#include "repair_tree/sum_range.h"

#include "erasure/policy.h"

namespace kintsugi::repair_tree {

Result<SumRange> SumRange::make(uint64_t offset, uint64_t length, uint64_t slice_bytes, uint32_t sums) {
  if (offset % kBlockBytes != 0 || offset > kMaxSumBytes || length > kMaxSumBytes - offset) {
    return Status{Code::kInvalidArgument, fmt::format("range {}+{} is not one of a chunk", offset, length)};
  }
  if (slice_bytes == 0) return Status{Code::kInvalidArgument, "slices of 0 bytes"};
  if (sums == 0 || sums > erasure::kMaxChunks) {
    return Status{Code::kInvalidArgument, fmt::format("{} sums at once", sums)};
  }
  SumRange range{offset, length, std::min(slice_bytes, std::max<uint64_t>(length, 1)), sums};
  if (range.slice_bytes < length)
    range.slice_bytes = std::min((range.slice_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes, length);
  if (range.slice_bytes * sums > kMaxSliceMemoryBytes) {
    return Status{Code::kLimitExceeded,
                  fmt::format("{} sums of {} bytes need too much memory", sums, range.slice_bytes)};
  }
  return range;
}

}  // namespace kintsugi::repair_tree
