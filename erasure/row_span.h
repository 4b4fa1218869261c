/// RowSpan: tells what can be computed from some rows over GF(2^8), and how, by Gaussian elimination row by row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kintsugi::erasure {

class RowSpan {
 public:
  /// Rows of `columns` coefficients; at most `max_rows` independent ones will be added.
  RowSpan(uint32_t columns, uint32_t max_rows);

  /// False, and nothing changes, when the row is a combination of those that were added.
  bool add(std::span<const uint8_t> row);

  /// How many rows were added.
  uint32_t rank() const { return static_cast<uint32_t>(pivots_.size()); }

  /// Finds `coefficients` (rank() of them, in the order of the rows) such that their combination is `row`. False, and
  /// they are meaningless, when there are none.
  bool express(std::span<const uint8_t> row, std::span<uint8_t> coefficients);

 private:
  /// Eliminates the pivots of the basis from `work_`: values, then the combination of added rows.
  void reduce();

  uint32_t columns_;
  uint32_t max_rows_;
  std::vector<uint8_t> basis_;  ///< rank x (columns + max_rows): a row, then its combination of added rows
  /// Index: row of the basis; a column where that row is one and later rows are zero.
  std::vector<uint32_t> pivots_;
  std::vector<uint8_t> work_;
};

}  // namespace kintsugi::erasure
