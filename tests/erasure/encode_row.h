/// The parity of whole cells, for tests: production code encodes ranges of symbols.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "common/base/assert.h"
#include "erasure/code.h"

namespace kintsugi::erasure {

/// Encodes one row: `cells` has k ranges, each possibly shorter or empty, `parity` has m. With rows() = 1 each parity is as
/// long as the longest cell or ends where the cells that it covers do; otherwise all have the length of a whole cell.
inline void encode_row(const Code& code, std::span<const std::span<const std::byte>> cells,
                       std::span<const std::span<std::byte>> parity) {
  if (code.rows() == 1) return code.encode_symbols(cells, parity);
  const size_t sub_cell = parity[0].size() / code.rows();
  std::vector<std::span<const std::byte>> in;
  std::vector<std::span<std::byte>> out;
  for (const auto& cell : cells) {
    KINTSUGI_ASSERT(cell.size() <= parity[0].size());
    for (uint32_t t = 0; t < code.rows(); ++t) {
      const size_t begin = std::min(t * sub_cell, cell.size());
      in.push_back(cell.subspan(begin, std::min(sub_cell, cell.size() - begin)));
    }
  }
  for (const auto& cell : parity) {
    for (uint32_t t = 0; t < code.rows(); ++t)
      out.push_back(cell.subspan(t * sub_cell, sub_cell));
  }
  code.encode_symbols(in, out);
}

}  // namespace kintsugi::erasure
