#include "erasure/row_span.h"

#include <algorithm>
#include <array>

#include <isa-l/erasure_code.h>

#include "common/base/assert.h"

namespace kintsugi::erasure {

namespace {

using Products = std::array<std::array<uint8_t, 256>, 256>;

const Products& products() {
  static const Products all = [] {
    Products table;
    for (int a = 0; a < 256; ++a) {
      for (int b = 0; b < 256; ++b)
        table[a][b] = gf_mul(static_cast<uint8_t>(a), static_cast<uint8_t>(b));
    }
    return table;
  }();
  return all;
}

}  // namespace

RowSpan::RowSpan(uint32_t columns, uint32_t max_rows)
    : columns_(columns), max_rows_(max_rows), work_(columns + max_rows) {
  basis_.reserve(size_t{max_rows} * work_.size());
  pivots_.reserve(max_rows);
}

void RowSpan::reduce() {
  const Products& table = products();
  const size_t used = columns_ + pivots_.size();  // combinations use no columns behind it
  for (size_t i = 0; i < pivots_.size(); ++i) {
    const uint8_t factor = work_[pivots_[i]];
    if (factor == 0) continue;
    const auto& times = table[factor];
    const uint8_t* row = basis_.data() + i * work_.size();
    for (size_t c = 0; c < used; ++c)
      work_[c] ^= times[row[c]];
  }
}

bool RowSpan::add(std::span<const uint8_t> row) {
  KINTSUGI_ASSERT(row.size() == columns_);
  std::fill(std::copy(row.begin(), row.end(), work_.begin()), work_.end(), uint8_t{0});
  reduce();
  const auto values = std::span(work_).first(columns_);
  const auto pivot = std::find_if(values.begin(), values.end(), [](uint8_t value) { return value != 0; });
  if (pivot == values.end()) return false;
  KINTSUGI_ASSERT(rank() < max_rows_);
  work_[columns_ + rank()] = 1;
  const auto& times = products()[gf_inv(*pivot)];
  for (uint8_t& value : work_)
    value = times[value];
  pivots_.push_back(static_cast<uint32_t>(pivot - values.begin()));
  basis_.insert(basis_.end(), work_.begin(), work_.end());
  return true;
}

bool RowSpan::express(std::span<const uint8_t> row, std::span<uint8_t> coefficients) {
  KINTSUGI_ASSERT(row.size() == columns_ && coefficients.size() == rank());
  std::fill(std::copy(row.begin(), row.end(), work_.begin()), work_.end(), uint8_t{0});
  reduce();
  std::copy_n(work_.begin() + columns_, rank(), coefficients.begin());
  return std::all_of(work_.begin(), work_.begin() + columns_, [](uint8_t value) { return value == 0; });
}

}  // namespace kintsugi::erasure
