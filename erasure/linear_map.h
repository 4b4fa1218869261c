/// LinearMap: a matrix over GF(2^8) that is applied to byte ranges with ISA-L. Encoding and decoding are both that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kintsugi::erasure {

/// out[r] = XOR over c of coefficient(r, c) * in[c], byte by byte.
///
/// Immutable after construction, so any number of threads may apply one map. At most kMaxSymbols rows and
/// columns. Zero coefficients cost nothing where most are zero, as in the matrices of rotated codes.
class LinearMap {
 public:
  LinearMap() = default;  ///< no rows

  /// `coefficients` is rows x columns, row-major.
  LinearMap(uint32_t rows, uint32_t columns, std::vector<uint8_t> coefficients);

  /// Computes `out` from `in`. `in` has `columns` ranges, `out` has `rows`. Ranges may differ in length: an input
  /// counts as zeros beyond its end, an output is written as far as it goes. Nothing is copied, padded or allocated
  /// while all lengths agree. Outputs overlap neither inputs nor each other.
  void apply(std::span<const std::span<const std::byte>> in, std::span<const std::span<std::byte>> out) const;

  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return columns_; }
  std::span<const uint8_t> coefficients() const { return coefficients_; }

 private:
  struct Segment;
  /// Rows that are multiplied together, and the columns where they are not zero.
  struct Group {
    std::vector<uint32_t> rows, columns;
    std::vector<uint8_t> tables;  ///< ISA-L's tables for these rows and columns
  };
  struct Product;

  void make_groups();
  std::vector<uint8_t> tables_of(std::span<const uint32_t> rows, std::span<const uint32_t> columns) const;
  void apply_segment(const Segment& segment) const;
  void multiply_segment(const Segment& segment) const;
  bool prepare(const Group& group, const Segment& segment, Product& product) const;

  uint32_t rows_ = 0;
  uint32_t columns_ = 0;
  std::vector<uint8_t> coefficients_;
  std::vector<int> copied_from_;  ///< index: row; the column that it is a plain copy of, or -1
  std::vector<Group> groups_;     ///< all rows that are not copies
};

}  // namespace kintsugi::erasure
