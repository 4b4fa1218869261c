/// Totals of the transitions between two states, of all tasks since the process started.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "monitoring/sight/tables/entry_index.h"
#include "monitoring/sight/tables/seqlock.h"

namespace kintsugi::sight {

struct EdgeTotals {
  uint16_t from, to;
  /// Index of this edge among the own edges of the task that last took it; only the writer uses it.
  uint32_t task_edge;
  uint64_t count;
  /// Sums of log2(nanoseconds spent in `from`), unit 1/256, and of its square.
  int64_t sum_q8, sum_sq_q16;
  uint32_t histogram[32];  ///< octaves: bucket i counts times of at least 2^i ns
};
static_assert(sizeof(EdgeTotals) == 160);

/// The logarithm to base 2 in 1/256, by the eight bits behind the leading one, which a double has in their places.
/// REQUIRES: value > 0.
int64_t log2_q8(int64_t value);

/// One thread writes; any may read. A full table drops and counts.
class EdgeTable {
 public:
  /// REQUIRES: limit < UINT16_MAX; states have numbers below `states`.
  EdgeTable(uint32_t limit, uint32_t states);

  /// For the writer: so many transitions (`weight`) after the same time. Null: there is no room for the edge.
  [[gnu::always_inline]] EdgeTotals* count(uint16_t from, uint16_t to, int64_t sojourn_ns, uint32_t weight);

  // ---- for any thread

  std::vector<EdgeTotals> read() const;
  uint64_t dropped() const { return dropped_.get(); }

 private:
  [[clang::preserve_most]] uint16_t find(uint16_t from, uint16_t to);

  ZeroedArray<EdgeTotals> edges_;
  std::atomic<uint32_t> used_{0};
  EntryIndex index_;  ///< numbers of edges, from 1
  /// Which state followed a state the last time. The same one mostly follows again, and then no index is searched.
  struct Next {
    uint16_t state, edge;  ///< `edge`: as in the index; 0: none yet
  };
  ZeroedArray<Next> next_;
  Count dropped_;
};

/// log2(1 + i / 256) in 1/256, rounded: squaring a number between 1 and 2 doubles its logarithm, and gives a bit of it
/// each time.
inline constexpr std::array<uint8_t, 256> kLogarithmFractions = [] {
  std::array<uint8_t, 256> fractions{};
  for (size_t i = 0; i < fractions.size(); ++i) {
    double rest = 1 + static_cast<double>(i) / 256;
    unsigned bits = 0;
    for (int bit = 0; bit < 16; ++bit) {
      rest *= rest;
      bits = bits * 2 + (rest >= 2 ? 1 : 0);
      if (rest >= 2) rest /= 2;
    }
    fractions[i] = static_cast<uint8_t>((bits + 128) / 256);
  }
  return fractions;
}();

inline int64_t log2_q8(int64_t value) {
  constexpr int kMantissaBits = 52, kFractionBits = 8;
  constexpr int64_t kBias = 1023;
  const int64_t bits = std::bit_cast<int64_t>(static_cast<double>(value)) >> (kMantissaBits - kFractionBits);
  return (bits & ~int64_t{255}) - (kBias << kFractionBits) + kLogarithmFractions[bits & 255];
}

inline EdgeTotals* EdgeTable::count(uint16_t from, uint16_t to, int64_t sojourn_ns, uint32_t weight) {
  const Next& next = next_[from];
  const uint16_t number = next.state == to && next.edge != 0 ? next.edge : find(from, to);
  if (number == 0) return nullptr;
  EdgeTotals& edge = edges_[number - 1];
  add(edge.count, uint64_t{weight});
  if (from == 0) return &edge;  // no time is spent outside of all states
  const int64_t x = log2_q8(std::max<int64_t>(sojourn_ns, 1));
  add(edge.sum_q8, x * weight);
  add(edge.sum_sq_q16, x * x * weight);
  add(edge.histogram[std::min<uint64_t>(static_cast<uint64_t>(x) / 256, 31)], weight);
  return &edge;
}

}  // namespace kintsugi::sight
