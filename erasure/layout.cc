#include "erasure/layout.h"

#include <algorithm>

#include "common/base/assert.h"

namespace kintsugi::erasure {

namespace {

uint64_t row_bytes(const Policy& policy) {
  return uint64_t{policy.k} * policy.cell_bytes;
}

// The data chunk whose length chunk `index` has: itself, or the first of those that a parity covers, which
// is the longest.
uint32_t longest_covered(const Policy& policy, uint32_t index) {
  if (index < policy.k) return index;
  const uint32_t parity = index - policy.k;
  return parity < policy.local ? parity * (policy.k / policy.local) : 0;
}

}  // namespace

Location locate(const Policy& policy, uint64_t stripe_offset) {
  const uint64_t row = stripe_offset / row_bytes(policy);
  const uint64_t in_row = stripe_offset % row_bytes(policy);
  return {.chunk = static_cast<uint32_t>(in_row / policy.cell_bytes),
          .chunk_offset = row * policy.cell_bytes + in_row % policy.cell_bytes};
}

uint64_t chunk_length(const Policy& policy, uint64_t stripe_length, uint32_t index) {
  KINTSUGI_ASSERT(index < policy.chunks());
  const uint64_t cells_before = longest_covered(policy, index);
  const uint64_t before_in_row = cells_before * policy.cell_bytes;
  const uint64_t last_row = stripe_length % row_bytes(policy);
  const uint64_t last_cell =
      last_row > before_in_row ? std::min<uint64_t>(last_row - before_in_row, policy.cell_bytes) : 0;
  const bool whole_cells = policy.rows() > 1 && index >= policy.k && last_cell > 0;
  return stripe_length / row_bytes(policy) * policy.cell_bytes +
         (whole_cells ? policy.cell_bytes : last_cell);
}

uint64_t sub_chunk_bytes(uint64_t chunk_bytes, uint32_t rows, uint64_t cell_bytes) {
  if (rows <= 1) return chunk_bytes;
  const uint64_t sub_cell = cell_bytes / rows;
  return chunk_bytes / cell_bytes * sub_cell + std::min(sub_cell, chunk_bytes % cell_bytes);
}

uint64_t max_stripe_bytes(const Policy& policy, uint64_t max_chunk_bytes) {
  const uint64_t rows = max_chunk_bytes / policy.cell_bytes;
  return rows == 0 ? max_chunk_bytes : rows * row_bytes(policy);
}

std::vector<Piece> pieces(const Policy& policy, uint64_t stripe_offset, uint64_t bytes) {
  std::vector<Piece> result;
  if (bytes == 0) return result;
  result.reserve(bytes / policy.cell_bytes + 2);
  while (bytes > 0) {
    const Location at = locate(policy, stripe_offset);
    const uint64_t left_in_cell = policy.cell_bytes - at.chunk_offset % policy.cell_bytes;
    const uint64_t part = std::min(bytes, left_in_cell);
    result.push_back({at.chunk, at.chunk_offset, stripe_offset, static_cast<uint32_t>(part)});
    stripe_offset += part;
    bytes -= part;
  }
  return result;
}

}  // namespace kintsugi::erasure
