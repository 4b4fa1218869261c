/// The generator matrices of the codes: which combination of the data each symbol of a stripe is.
///
/// A symbol is a sub-cell (a cell, unless the code is rotated): number chunk * rows + row. The matrix is
/// (chunks * rows) x (k * rows), row-major, over GF(2^8), and begins with the identity.
#pragma once

#include <cstdint>
#include <vector>

#include "erasure/policy.h"

namespace kintsugi::erasure {

/// REQUIRES: parameters that Policy::parse accepts (cell_bytes does not matter).
std::vector<uint8_t> make_generator(const Policy& policy);

}  // namespace kintsugi::erasure
