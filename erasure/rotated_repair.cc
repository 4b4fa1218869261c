#include "erasure/rotated_repair.h"

#include <algorithm>
#include <array>
#include <bitset>

#include <isa-l/erasure_code.h>

namespace kintsugi::erasure {

namespace {

using Symbols = std::bitset<kMaxSymbols>;

// A way to get one row of the lost chunk: a parity symbol, and all that is read for it.
struct Way {
  uint32_t parity = 0;
  Symbols reads;
};

// The ways to get one symbol: one for each available parity symbol that holds it, in the order of the candidates.
std::vector<Way> ways_to(const Code& code, uint32_t lost_symbol, std::span<const uint32_t> candidates) {
  const uint32_t columns = code.k() * code.rows();
  std::vector<Way> ways;
  for (const uint32_t chunk : candidates) {
    if (chunk < code.k()) continue;
    for (uint32_t row = 0; row < code.rows(); ++row) {
      const uint32_t parity = chunk * code.rows() + row;
      const auto coefficients = code.generator().subspan(size_t{parity} * columns, columns);
      if (coefficients[lost_symbol] == 0) continue;
      Way way{.parity = parity};
      way.reads.set(parity);
      for (uint32_t symbol = 0; symbol < columns; ++symbol) {
        if (coefficients[symbol] != 0 && symbol != lost_symbol) way.reads.set(symbol);
      }
      ways.push_back(way);
    }
  }
  return ways;
}

struct Search {
  using Choice = std::array<uint32_t, kRotatedRows>;  // index: row; value: number of a parity symbol

  std::array<std::vector<Way>, kRotatedRows> ways;
  Choice chosen{}, best{};
  size_t best_reads = kMaxSymbols + 1;

  void choose(uint32_t row, const Symbols& reads) {
    if (reads.count() >= best_reads) return;
    if (row == kRotatedRows) {
      best = chosen;
      best_reads = reads.count();
      return;
    }
    for (const Way& way : ways[row]) {
      chosen[row] = way.parity;
      choose(row + 1, reads | way.reads);
    }
  }
};

// Writes the parity symbol solved for the lost one, as a line of the matrix whose columns are all the stripe's symbols.
void write_line(const Code& code, uint32_t parity, uint32_t lost_symbol, std::span<uint8_t> line) {
  const uint32_t columns = code.k() * code.rows();
  const auto coefficients = code.generator().subspan(size_t{parity} * columns, columns);
  const uint8_t inverse = gf_inv(coefficients[lost_symbol]);
  for (uint32_t symbol = 0; symbol < columns; ++symbol)
    line[symbol] = gf_mul(coefficients[symbol], inverse);
  line[lost_symbol] = 0;
  line[parity] = inverse;
}

}  // namespace

std::optional<Code::Combination> rotated_repair(const Code& code, uint32_t lost,
                                                std::span<const uint32_t> candidates) {
  if (code.rows() != kRotatedRows || lost >= code.k()) return std::nullopt;
  const auto data =
      std::count_if(candidates.begin(), candidates.end(), [&](uint32_t chunk) { return chunk < code.k(); });
  if (data + 1 < code.k()) return std::nullopt;
  Search search;
  for (uint32_t row = 0; row < kRotatedRows; ++row)
    search.ways[row] = ways_to(code, lost * kRotatedRows + row, candidates);
  search.choose(0, {});
  if (search.best_reads > kMaxSymbols) return std::nullopt;

  const size_t symbols = size_t{code.chunks()} * kRotatedRows;
  std::vector<uint8_t> lines(kRotatedRows * symbols);
  for (uint32_t row = 0; row < kRotatedRows; ++row) {
    write_line(code, search.best[row], lost * kRotatedRows + row,
               std::span(lines).subspan(row * symbols, symbols));
  }
  Code::Combination result{.helpers = {candidates.begin(), candidates.end()}};
  for (uint32_t row = 0; row < kRotatedRows; ++row) {
    for (const uint32_t chunk : candidates) {
      const auto values = lines.begin() + row * symbols + chunk * kRotatedRows;
      result.matrix.insert(result.matrix.end(), values, values + kRotatedRows);
    }
  }
  return result;
}

}  // namespace kintsugi::erasure
