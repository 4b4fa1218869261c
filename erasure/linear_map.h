/// LinearMap: a matrix over GF(2^8) that is applied to byte ranges with ISA-L. Encoding and decoding are both
/// this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kintsugi::erasure {

/// out[r] = XOR over c of coefficient(r, c) * in[c], byte by byte.
///
/// Immutable after construction, so any number of threads may apply one map. At most kMaxChunks rows and
/// columns.
class LinearMap {
 public:
  LinearMap() = default;  ///< no rows

  /// `coefficients` is rows x columns, row-major.
  LinearMap(uint32_t rows, uint32_t columns, std::vector<uint8_t> coefficients);

  /// `in` has `columns` ranges, `out` has `rows`. Ranges may differ in length: an input counts as zeros
  /// beyond its end, an output is written as far as it goes. Nothing is copied, padded or allocated while all
  /// lengths agree. Outputs overlap neither inputs nor each other.
  void apply(std::span<const std::span<const std::byte>> in, std::span<const std::span<std::byte>> out) const;

  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return columns_; }
  std::span<const uint8_t> coefficients() const { return coefficients_; }

 private:
  struct Segment;

  void apply_segment(const Segment& segment) const;
  void multiply_segment(const Segment& segment) const;

  uint32_t rows_ = 0;
  uint32_t columns_ = 0;
  std::vector<uint8_t> coefficients_;
  std::vector<int> copied_from_;           // per row: the column it is a plain copy of, or -1
  std::vector<uint32_t> multiplied_rows_;  // rows that are not copies
  std::vector<uint8_t> tables_;            // ISA-L tables of the multiplied rows and all columns
};

}  // namespace kintsugi::erasure
