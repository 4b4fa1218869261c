#include "partial_sum/sum_range.h"

#include <bit>

#include "erasure/policy.h"

namespace kintsugi::partial_sum {
namespace {

Status check_rows(uint32_t rows, uint64_t cell_bytes) {
  if (rows > kMaxRows) return invalid(fmt::format("{} rows", rows));
  if (rows == 1) return {};
  if (cell_bytes == 0 || cell_bytes > erasure::kMaxCellBytes || cell_bytes % (rows * kBlockBytes) != 0) {
    return invalid(
        fmt::format("cells of {} bytes cannot be cut into {} rows of whole blocks", cell_bytes, rows));
  }
  return {};
}

Status check_mask(SliceMask mask) {
  if (mask.period > SliceMask::kMaxPeriod) return invalid(fmt::format("a slice period of {}", mask.period));
  if (mask.period == 0 && mask.bits != 0) return invalid("a slice mask without a period");
  if (mask.period == 0) return {};
  if (mask.bits == 0) return invalid("a slice mask without slices");
  if (mask.period < 64 && mask.bits >> mask.period != 0) return invalid("a slice mask beyond its period");
  return {};
}

}  // namespace

Result<SumRange> SumRange::make(uint64_t offset, uint64_t length, uint64_t slice_bytes, uint32_t sums) {
  proto::PartialSumRequest request;
  request.set_offset(offset);
  request.set_length(length);
  request.set_slice_bytes(slice_bytes);
  return make(request, sums);
}

Result<SumRange> SumRange::make(const proto::PartialSumRequest& request, uint32_t sums) {
  SumRange range{request.offset(),
                 request.length(),
                 request.slice_bytes(),
                 sums,
                 std::max<uint32_t>(request.rows(), 1),
                 request.cell_bytes(),
                 SliceMask{request.slice_period(), request.slice_mask()}};
  KINTSUGI_TRY(check_rows(range.rows, range.cell_bytes));
  KINTSUGI_TRY(check_mask(range.mask));
  const uint64_t unit = range.sub_cell_bytes();
  if (range.offset % unit != 0 || range.offset > kMaxSumBytes || range.length > kMaxSumBytes - range.offset) {
    return invalid(fmt::format("range {}+{} is not one of a chunk", range.offset, range.length));
  }
  if (range.slice_bytes == 0) return invalid("slices of 0 bytes");
  if (sums == 0 || sums > kMaxSums) return invalid(fmt::format("{} sums at once", sums));
  range.slice_bytes = std::min(range.slice_bytes, std::max<uint64_t>(range.length, 1));
  if (range.slice_bytes < range.length) {
    range.slice_bytes = std::min(round_up(range.slice_bytes, unit), range.length);
  }
  if (range.slice_bytes * sums > kMaxSliceMemoryBytes) {
    return Status{Code::kLimitExceeded,
                  fmt::format("{} sums of {} bytes need too much memory", sums, range.slice_bytes)};
  }
  return range;
}

size_t SumRange::carried_slices() const {
  const size_t all = slices();
  if (mask.all()) return all;
  const size_t rest = all % mask.period;
  const uint64_t rest_bits = mask.bits & ((uint64_t{1} << rest) - 1);
  return all / mask.period * std::popcount(mask.bits) + std::popcount(rest_bits);
}

size_t SumRange::carried_slice(size_t ordinal) const {
  if (mask.all()) return ordinal;
  const size_t set = std::popcount(mask.bits);
  uint64_t bits = mask.bits;
  for (size_t skip = ordinal % set; skip > 0; --skip)
    bits &= bits - 1;
  return ordinal / set * mask.period + std::countr_zero(bits);
}

}  // namespace kintsugi::partial_sum
