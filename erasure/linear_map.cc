#include "erasure/linear_map.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <isa-l/erasure_code.h>

#include "common/base/assert.h"
#include "erasure/policy.h"

namespace kintsugi::erasure {

namespace {

constexpr size_t kTableBytes = 32;                 // ISA-L: one coefficient
constexpr size_t kMaxCallBytes = size_t{1} << 30;  // ISA-L takes lengths as int
constexpr int kNotACopy = -1;

std::vector<uint8_t> make_tables(size_t rows, size_t columns, const uint8_t* coefficients) {
  std::vector<uint8_t> tables(rows * columns * kTableBytes);
  ec_init_tables(static_cast<int>(columns), static_cast<int>(rows), const_cast<uint8_t*>(coefficients),
                 tables.data());
  return tables;
}

unsigned char* isal(const std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes));
}

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

LinearMap::LinearMap(uint32_t rows, uint32_t columns, std::vector<uint8_t> coefficients)
    : rows_(rows), columns_(columns), coefficients_(std::move(coefficients)) {
  KINTSUGI_ASSERT(rows <= kMaxChunks && columns <= kMaxChunks);
  KINTSUGI_ASSERT(coefficients_.size() == size_t{rows} * columns);
  std::vector<uint8_t> multiplied;
  for (uint32_t row = 0; row < rows; ++row) {
    const auto values = std::span(coefficients_).subspan(size_t{row} * columns, columns);
    copied_from_.push_back(copied_column(values));
    if (copied_from_.back() != kNotACopy) continue;
    multiplied_rows_.push_back(row);
    multiplied.insert(multiplied.end(), values.begin(), values.end());
  }
  if (!multiplied.empty()) tables_ = make_tables(multiplied_rows_.size(), columns, multiplied.data());
}

void LinearMap::apply(std::span<const std::span<const std::byte>> in,
                      std::span<const std::span<std::byte>> out) const {
  KINTSUGI_ASSERT(in.size() == columns_ && out.size() == rows_);
  std::array<size_t, 2 * kMaxChunks> ends;
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
  if (!multiplied_rows_.empty()) multiply_segment(segment);
}

void LinearMap::multiply_segment(const Segment& segment) const {
  std::array<uint32_t, kMaxChunks> active_rows, active_columns;
  std::array<unsigned char*, kMaxChunks> from, to;
  size_t rows = 0, columns = 0;
  for (const uint32_t row : multiplied_rows_) {
    if (!segment.has_output(row)) continue;
    to[rows] = isal(segment.out[row].data() + segment.begin);
    active_rows[rows++] = row;
  }
  for (uint32_t column = 0; column < columns_; ++column) {
    if (!segment.has_input(column)) continue;
    from[columns] = isal(segment.in[column].data() + segment.begin);
    active_columns[columns++] = column;
  }
  const size_t bytes = segment.end - segment.begin;
  if (columns == 0) {
    for (size_t i = 0; i < rows; ++i)
      std::memset(to[i], 0, bytes);
    return;
  }
  if (rows == 0) return;

  // Only short rows come here with a part of the matrix: tables of its own are cheaper than padding the data.
  std::vector<uint8_t> part_tables;
  const bool whole = rows == multiplied_rows_.size() && columns == columns_;
  if (!whole) {
    std::array<uint8_t, kMaxChunks * kMaxChunks> part;
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c) {
        part[r * columns + c] = coefficients_[size_t{active_rows[r]} * columns_ + active_columns[c]];
      }
    }
    part_tables = make_tables(rows, columns, part.data());
  }
  auto* tables = const_cast<uint8_t*>(whole ? tables_.data() : part_tables.data());

  for (size_t done = 0; done < bytes;) {
    const size_t part = std::min(kMaxCallBytes, bytes - done);
    ec_encode_data(static_cast<int>(part), static_cast<int>(columns), static_cast<int>(rows), tables,
                   from.data(), to.data());
    for (size_t r = 0; r < rows; ++r)
      to[r] += part;
    for (size_t c = 0; c < columns; ++c)
      from[c] += part;
    done += part;
  }
}

}  // namespace kintsugi::erasure
