#include "erasure/linear_map.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>

#include <isa-l/erasure_code.h>

#include "common/base/assert.h"
#include "erasure/isal.h"
#include "erasure/policy.h"

namespace kintsugi::erasure {

namespace {

constexpr size_t kTableBytes = 32;    // ISA-L: one coefficient
constexpr size_t kTileBytes = 4096;   // several groups take turns: their inputs stay in the cache
constexpr size_t kSparseDivisor = 2;  // a matrix is sparse when less than half of it is not zero
constexpr int kNotACopy = -1;

// Column that `row` copies: exactly one coefficient is not zero, and it is one.
int copied_column(std::span<const uint8_t> row) {
  int column = kNotACopy;
  for (size_t c = 0; c < row.size(); ++c) {
    if (row[c] == 0) continue;
    if (row[c] != 1 || column != kNotACopy) return kNotACopy;
    column = static_cast<int>(c);
  }
  return column;
}

}  // namespace

// A range of offsets in which every input and output either covers all of it or none.
struct LinearMap::Segment {
  std::span<const std::span<const std::byte>> in;
  std::span<const std::span<std::byte>> out;
  size_t begin = 0;
  size_t end = 0;

  bool has_input(size_t column) const { return in[column].size() >= end; }
  bool has_output(size_t row) const { return out[row].size() >= end; }
};

// One call of ISA-L: a group with pointers to those of its ranges that are there.
struct LinearMap::Product {
  std::array<unsigned char*, kMaxSymbols> from, to;
  size_t rows = 0, columns = 0;
  const uint8_t* tables = nullptr;
  std::vector<uint8_t> part_tables;

  void multiply(size_t bytes) {
    for (size_t done = 0; done < bytes;) {
      const size_t part = std::min(kMaxCallBytes, bytes - done);
      ec_encode_data(static_cast<int>(part), static_cast<int>(columns), static_cast<int>(rows),
                     const_cast<uint8_t*>(tables), from.data(), to.data());
      for (size_t r = 0; r < rows; ++r)
        to[r] += part;
      for (size_t c = 0; c < columns; ++c)
        from[c] += part;
      done += part;
    }
  }
};

LinearMap::LinearMap(uint32_t rows, uint32_t columns, std::vector<uint8_t> coefficients)
    : rows_(rows), columns_(columns), coefficients_(std::move(coefficients)) {
  KINTSUGI_ASSERT(rows <= kMaxSymbols && columns <= kMaxSymbols);
  KINTSUGI_ASSERT(coefficients_.size() == size_t{rows} * columns);
  for (uint32_t row = 0; row < rows; ++row)
    copied_from_.push_back(copied_column(std::span(coefficients_).subspan(size_t{row} * columns, columns)));
  make_groups();
}

std::vector<uint8_t> LinearMap::tables_of(std::span<const uint32_t> rows,
                                          std::span<const uint32_t> columns) const {
  std::vector<uint8_t> part;
  part.reserve(rows.size() * columns.size());
  for (const uint32_t row : rows) {
    for (const uint32_t column : columns)
      part.push_back(coefficients_[size_t{row} * columns_ + column]);
  }
  std::vector<uint8_t> tables(part.size() * kTableBytes);
  ec_init_tables(static_cast<int>(columns.size()), static_cast<int>(rows.size()), part.data(), tables.data());
  return tables;
}

void LinearMap::make_groups() {
  std::map<std::vector<uint32_t>, std::vector<uint32_t>> rows_of_columns;
  std::vector<uint32_t> all_columns(columns_), multiplied;
  std::iota(all_columns.begin(), all_columns.end(), 0);
  size_t not_zero = 0;
  for (uint32_t row = 0; row < rows_; ++row) {
    if (copied_from_[row] != kNotACopy) continue;
    multiplied.push_back(row);
    std::vector<uint32_t> used;
    std::copy_if(all_columns.begin(), all_columns.end(), std::back_inserter(used),
                 [&](uint32_t column) { return coefficients_[size_t{row} * columns_ + column] != 0; });
    not_zero += used.size();
    rows_of_columns[std::move(used)].push_back(row);
  }
  if (multiplied.empty()) return;
  const bool sparse = not_zero * kSparseDivisor < multiplied.size() * columns_;
  if (!sparse) rows_of_columns = {{all_columns, multiplied}};
  for (const auto& [columns, rows] : rows_of_columns)
    groups_.push_back({rows, columns, tables_of(rows, columns)});
}

void LinearMap::apply(std::span<const std::span<const std::byte>> in,
                      std::span<const std::span<std::byte>> out) const {
  KINTSUGI_ASSERT(in.size() == columns_ && out.size() == rows_);
  std::array<size_t, 2 * kMaxSymbols> ends;
  size_t count = 0;
  size_t longest_output = 0;
  for (const auto& range : out) {
    longest_output = std::max(longest_output, range.size());
    ends[count++] = range.size();
  }
  for (const auto& range : in)
    ends[count++] = range.size();
  std::sort(ends.begin(), ends.begin() + count);

  size_t begin = 0;
  for (size_t i = 0; i < count && ends[i] <= longest_output; ++i) {
    if (ends[i] == begin) continue;
    apply_segment({.in = in, .out = out, .begin = begin, .end = ends[i]});
    begin = ends[i];
  }
  if (begin < longest_output) apply_segment({.in = in, .out = out, .begin = begin, .end = longest_output});
}

void LinearMap::apply_segment(const Segment& segment) const {
  const size_t bytes = segment.end - segment.begin;
  for (uint32_t row = 0; row < rows_; ++row) {
    const int column = copied_from_[row];
    if (column == kNotACopy || !segment.has_output(row)) continue;
    std::byte* to = segment.out[row].data() + segment.begin;
    if (segment.has_input(column)) {
      std::memcpy(to, segment.in[column].data() + segment.begin, bytes);
    } else {
      std::memset(to, 0, bytes);
    }
  }
  multiply_segment(segment);
}

// Fills `product`. False: there is nothing to multiply, the outputs are done.
bool LinearMap::prepare(const Group& group, const Segment& segment, Product& product) const {
  std::array<uint32_t, kMaxSymbols> rows, columns;
  for (const uint32_t row : group.rows) {
    if (!segment.has_output(row)) continue;
    rows[product.rows] = row;
    product.to[product.rows++] = isal(segment.out[row].data() + segment.begin);
  }
  for (const uint32_t column : group.columns) {
    if (!segment.has_input(column)) continue;
    columns[product.columns] = column;
    product.from[product.columns++] = isal(segment.in[column].data() + segment.begin);
  }
  if (product.columns == 0) {
    for (size_t r = 0; r < product.rows; ++r)
      std::memset(product.to[r], 0, segment.end - segment.begin);
  }
  if (product.rows == 0 || product.columns == 0) return false;
  product.tables = group.tables.data();
  if (product.rows == group.rows.size() && product.columns == group.columns.size()) return true;
  // Only short rows come here with a part of the matrix: tables of its own are cheaper than padding the data.
  product.part_tables =
      tables_of(std::span(rows).first(product.rows), std::span(columns).first(product.columns));
  product.tables = product.part_tables.data();
  return true;
}

void LinearMap::multiply_segment(const Segment& segment) const {
  const size_t bytes = segment.end - segment.begin;
  if (groups_.size() == 1) {
    Product product;
    if (prepare(groups_[0], segment, product)) product.multiply(bytes);
    return;
  }
  std::vector<Product> products;
  products.reserve(groups_.size());
  for (const Group& group : groups_) {
    if (!prepare(group, segment, products.emplace_back())) products.pop_back();
  }
  for (size_t done = 0; done < bytes; done += kTileBytes) {
    for (Product& product : products)
      product.multiply(std::min(kTileBytes, bytes - done));
  }
}

}  // namespace kintsugi::erasure
