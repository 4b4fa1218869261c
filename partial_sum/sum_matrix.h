/// The factors with which inputs of a node (rows of its chunk, outputs of a child) are added to its sums.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "erasure/multiply.h"

namespace kintsugi::partial_sum {

/// sums[s] ^= coefficient[s][i] * input i, one input after the other.
class SumMatrix {
 public:
  /// `coefficients` are sums x inputs numbers, row by row.
  SumMatrix(std::string_view coefficients, uint32_t sums, uint32_t inputs);
  /// Adds input i to sum i. REQUIRES: inputs <= sums.
  static SumMatrix identity(uint32_t sums, uint32_t inputs);

  uint32_t inputs() const { return static_cast<uint32_t>(columns_.size()); }
  /// Every input has a sum of its number, and goes there unchanged and nowhere else.
  bool is_identity() const { return identity_; }

  /// Adds `in` as input number `input` to the same range of every sum (all as long as `in`). With `overwrite`
  /// the sums hold nothing yet: afterwards they hold this input alone.
  void add(uint32_t input, std::span<const std::byte> in, std::span<const std::span<std::byte>> sums,
           bool overwrite) const;

 private:
  /// At most kMaxChunks of the sums that an input goes to.
  struct Targets {
    std::vector<uint32_t> sums;
    erasure::MultiplyTable table;
  };
  struct Column {
    std::vector<Targets> targets;
    std::vector<uint32_t> untouched;  ///< sums with coefficient 0
  };
  std::vector<Column> columns_;
  bool identity_;
};

}  // namespace kintsugi::partial_sum
