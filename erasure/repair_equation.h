/// What a repair needs to know of a code: for the lost chunks and the chosen helpers,
/// `out[s] = XOR over helpers h of coefficient[h][s] * chunk(h)`. Trees, scheduling, degraded reads and the
/// simulator see only this object, whatever the code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "erasure/code.h"
#include "erasure/multiply.h"

namespace kintsugi::erasure {

struct RepairEquation {
  std::vector<uint32_t> lost;  ///< the chunks that are computed, in the order of the sums
  uint32_t rows = 1;           ///< sub-chunks of a chunk; 1 for Reed-Solomon and replication

  struct Term {
    uint32_t helper = 0;                ///< chunk index
    std::vector<uint8_t> coefficients;  ///< lost.size() x rows, row-major: one for each sum; not all zero
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> terms;  ///< in the order of the helpers that were given

  bool operator==(const RepairEquation&) const = default;
};

/// The equation for `lost` from exactly k `helpers`. A helper whose coefficients are all zero gets no term.
/// Errors: kInvalidArgument: no such chunk, one listed twice, one both lost and helping, none lost, or a
/// number of helpers other than k (the message says how many are needed).
Result<RepairEquation> repair_equation(const Code& code, std::span<const uint32_t> lost,
                                       std::span<const uint32_t> helpers);

}  // namespace kintsugi::erasure
