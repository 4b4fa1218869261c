/// Finds the symbols that rebuild one lost data chunk of a rotated code with the fewest reads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "erasure/code.h"

namespace kintsugi::erasure {

/// Computes each row of the lost chunk from one parity symbol and the data that went into it besides, which the rows
/// share as far as possible: about rows / 2 * (k + ceil(k / m)) symbols (Khan et al. 2012), found by search. Among
/// equal choices the parities that come first among `candidates` win. Symbols with zero columns are not read. Nothing
/// is returned when the code is not rotated, `lost` is no data chunk, or another data chunk or every parity is missing.
std::optional<Code::Combination> rotated_repair(const Code& code, uint32_t lost,
                                                std::span<const uint32_t> candidates);

}  // namespace kintsugi::erasure
