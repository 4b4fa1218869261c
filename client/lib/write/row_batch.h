/// Some whole rows of a stripe on their way to the servers: user bytes are read straight into cells, parity is computed
/// beside them, and the buffers are sent as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "client/lib/memory.h"
#include "erasure/code.h"
#include "erasure/policy.h"

namespace kintsugi::client {

/// A buffer with what the lease stands for, given back in this order.
struct LeasedBuffer {
  Lease lease;
  runtime::Buffer buffer;
};

/// A range of one chunk, at most one buffer long, with the CRC of each of its blocks. Where chunks are copies, their
/// slices share the memory.
struct Slice {
  std::shared_ptr<const LeasedBuffer> memory;
  uint64_t chunk_offset = 0;
  uint32_t bytes = 0;
  std::vector<uint32_t> block_crcs;

  std::span<const std::byte> data() const { return memory->buffer.first(bytes); }
};

class RowBatch {
 public:
  /// User bytes of a full batch: as many whole rows as fit a buffer of each chunk, at least one.
  static uint64_t full_bytes(const erasure::Policy& policy);
  /// Buffers that a batch of `user_bytes` takes, with parity; copies take none.
  static size_t buffers_needed(const erasure::Policy& policy, uint64_t user_bytes);

  /// At most `user_bytes` will be put in. `first_row_offset` is where the batch begins in each chunk. REQUIRES: `lease`
  /// has buffers_needed().
  RowBatch(const erasure::Policy& policy, uint64_t first_row_offset, uint64_t user_bytes, Lease lease,
           Memory& memory);

  /// The memory for the user bytes, in stripe order.
  std::vector<std::span<std::byte>> user_ranges();
  /// Fewer bytes came than there was room for; buffers that are not needed go back.
  void shorten(uint64_t user_bytes);
  uint64_t user_bytes() const { return user_bytes_; }

  /// REQUIRES: the user bytes are in place.
  void compute_parity(const erasure::Code& code);
  /// The slices of a chunk, in chunk order, with their CRCs; there may be none. REQUIRES: called once for each chunk,
  /// the first one first.
  std::vector<Slice> take(uint32_t chunk);

 private:
  /// The chunks that have memory of their own: not those that are copies of the first one.
  static uint32_t own_chunks(const erasure::Policy& policy) {
    const bool copies = policy.k == 1 && policy.family == erasure::Policy::Family::kReedSolomon;
    return copies ? 1 : policy.chunks();
  }
  std::vector<Slice> take_own(uint32_t chunk);
  uint64_t chunk_bytes(uint32_t chunk) const;
  std::span<std::byte> part(uint32_t chunk, size_t buffer);

  erasure::Policy policy_;
  uint64_t first_row_offset_;
  uint64_t user_bytes_;
  Lease lease_;                                        ///< returned after the buffers
  std::vector<std::vector<runtime::Buffer>> buffers_;  ///< index: chunk
  /// Slices of the first chunk, which the copies share, once they were taken.
  std::vector<Slice> copies_;
};

}  // namespace kintsugi::client
