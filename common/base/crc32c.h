/// CRC32C (Castagnoli), as stored with every block and chunk and sent with every frame.
///
/// Values are finalised (initial 0xffffffff, final inversion), so `crc32c("123456789")` is 0xe3069283.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kintsugi {

inline constexpr size_t kBlockBytes = 64 * 1024;  ///< unit of checksumming inside a chunk

uint32_t crc32c(std::span<const std::byte> data);

/// CRC of a ++ b from their CRCs. Takes constant time for the common `b_bytes` == kBlockBytes,
/// O(log b_bytes) otherwise.
uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, size_t b_bytes);

/// CRC of every block of `data`; the last one may be short.
std::vector<uint32_t> crc32c_blocks(std::span<const std::byte> data);

/// CRC of a whole chunk of `chunk_bytes` from its block CRCs. REQUIRES: block_crcs.size()
/// == divide_up(chunk_bytes, kBlockBytes).
uint32_t crc32c_of_blocks(std::span<const uint32_t> block_crcs, size_t chunk_bytes);

}  // namespace kintsugi
