/// Where a stripe's user bytes lie: cell i of the stripe is in chunk i mod k, row i / k.
///
/// The last row may be short: chunks have their own lengths, and bytes beyond them count as zeros. Parity covers
/// zero-padded rows and is as long as the longest data chunk that it covers: chunk 0, or the first of a local group (so
/// that the parity of an empty group is empty). The parity of a rotated code covers whole cells, since each of its
/// sub-cells depends on several of a data cell's. All sizes and offsets are bytes. All functions are pure. REQUIRES:
/// `policy.k` and `policy.cell_bytes` are not 0.
#pragma once

#include <cstdint>
#include <vector>

#include "erasure/policy.h"

namespace kintsugi::erasure {

/// A byte of a data chunk.
struct Location {
  uint32_t chunk = 0;
  uint64_t chunk_offset = 0;
  bool operator==(const Location&) const = default;
};

/// Where user byte `stripe_offset` of the stripe is stored.
Location locate(const Policy& policy, uint64_t stripe_offset);

/// Bytes stored in chunk `index` (data or parity) of a stripe that holds `stripe_length` user bytes.
uint64_t chunk_length(const Policy& policy, uint64_t stripe_length, uint32_t index);

/// Length of the longest of the `rows` sub-chunks of a chunk, each of which holds one sub-cell (cell_bytes / rows) of
/// every cell: all bytes of the chunk are in sub-chunks of this length. With one row that is the chunk, whatever its
/// cells.
uint64_t sub_chunk_bytes(uint64_t chunk_bytes, uint32_t rows, uint64_t cell_bytes);

/// User bytes of a full stripe whose chunks stay within `max_chunk_bytes`: whole rows as far as they fit.
/// When not even one cell fits, the stripe is a single short cell (whose rotated parity is a whole one).
uint64_t max_stripe_bytes(const Policy& policy, uint64_t max_chunk_bytes);

/// A range of user bytes that lies within one cell.
struct Piece {
  uint32_t chunk = 0;
  uint64_t chunk_offset = 0;
  uint64_t stripe_offset = 0;
  uint32_t bytes = 0;
  bool operator==(const Piece&) const = default;
};

/// The range [stripe_offset, stripe_offset + bytes) cut at cell borders, in stripe order; empty when `bytes` is 0.
std::vector<Piece> pieces(const Policy& policy, uint64_t stripe_offset, uint64_t bytes);

}  // namespace kintsugi::erasure
