/// The kernels of a partial sum: multiply a chunk's bytes by its coefficients and XOR sums of other chunks.
///
/// All lengths and alignments are allowed. Ranges passed to one call must not overlap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "erasure/policy.h"

namespace kintsugi::erasure {

/// One helper's coefficients, one for each lost chunk, prepared once and used for every slice. Takes no heap memory.
class MultiplyTable {
 public:
  /// At most kMaxChunks coefficients.
  explicit MultiplyTable(std::span<const uint8_t> coefficients);

  size_t outputs() const { return outputs_; }

  /// sums[s] ^= coefficient[s] * in. `in` counts as zeros beyond its end; a sum that is shorter than `in`
  /// takes as much as it holds. REQUIRES: sums.size() == outputs().
  void multiply_add(std::span<const std::byte> in, std::span<const std::span<std::byte>> sums) const;

  /// sums[s] = coefficient[s] * in, over the whole length of each sum: zeros beyond the end of `in`.
  void multiply(std::span<const std::byte> in, std::span<const std::span<std::byte>> sums) const;

 private:
  static constexpr size_t kTableBytes = 32;  ///< ISA-L's table of one coefficient

  std::array<uint8_t, kMaxChunks> coefficients_{};
  std::array<uint8_t, kMaxChunks * kTableBytes> tables_;
  size_t outputs_ = 0;
};

/// The same for a single call; a MultiplyTable is cheaper when slices are small.
void multiply_add(std::span<const uint8_t> coefficients, std::span<const std::byte> in,
                  std::span<const std::span<std::byte>> sums);
void multiply(std::span<const uint8_t> coefficients, std::span<const std::byte> in,
              std::span<const std::span<std::byte>> sums);

}  // namespace kintsugi::erasure
