/// A repair as an equation: for the lost chunks and the chosen helpers, `sum[s] = XOR over helpers h and their rows q
/// of coefficient[h][s][q] * sub-chunk(h, q)`. Trees, scheduling, degraded reads and the simulator see only this
/// object, whatever the code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "erasure/code.h"
#include "erasure/multiply.h"

namespace kintsugi::erasure {

struct RepairEquation {
  std::vector<uint32_t> lost;  ///< the chunks that are computed: sums lost x rows, row-major
  uint32_t rows = 1;           ///< sub-chunks of a chunk; 1 unless the code is rotated

  struct Term {
    uint32_t helper = 0;                ///< chunk index
    std::vector<uint32_t> own_rows;     ///< sub-chunks of it that are read, ascending; {0} when rows is 1
    std::vector<uint8_t> coefficients;  ///< (lost.size() * rows) x own_rows.size(), row-major; no zero column
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> terms;  ///< one term a helper, in the order of the candidates

  /// Sub-chunks that are read from all helpers together.
  uint32_t symbols() const;

  bool operator==(const RepairEquation&) const = default;
};

/// The equation for `lost` from those of `candidates` (in order of preference) that read least: the local group of each
/// lost chunk of an LRC, the rotated rows of a single data chunk; where the candidates do not allow that, from the
/// first ones that suffice. A helper whose coefficients are all zero gets no term. Errors: kInvalidArgument (no such
/// chunk, one listed twice, one both lost and a candidate, none lost), kUnavailable (the candidates do not suffice).
Result<RepairEquation> repair_equation(const Code& code, std::span<const uint32_t> lost,
                                       std::span<const uint32_t> candidates);

}  // namespace kintsugi::erasure
