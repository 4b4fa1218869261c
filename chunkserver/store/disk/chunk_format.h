/// Layout of a chunk file: a 4 KiB header, the data, then the CRC32C of every 64 KiB block, each part padded to 4 KiB.
///
/// The table needs no checksum of its own: combined, its values must give the CRC of the whole chunk in the header.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chunkserver/store/disk/chunk_info.h"
#include "common/base/status.h"

namespace kintsugi::chunkserver {

inline constexpr uint64_t kChunkHeaderBytes = 4096;
inline constexpr uint64_t kChunkDataOffset = kChunkHeaderBytes;

struct ChunkHeader {
  ChunkInfo info;
  std::string policy;
};

constexpr uint64_t chunk_table_offset(uint64_t length) {
  return kChunkDataOffset + aligned(length);
}
constexpr uint64_t chunk_table_bytes(uint64_t length) {
  return aligned(blocks_of(length) * sizeof(uint32_t));
}
constexpr uint64_t chunk_file_bytes(uint64_t length) {
  return chunk_table_offset(length) + chunk_table_bytes(length);
}

/// REQUIRES: `out` has kChunkHeaderBytes, and is zero.
void encode_chunk_header(const ChunkHeader& header, std::span<std::byte> out);
/// The reverse, for bytes that may be anything. kCorrupt: magic, version, CRC or a length beyond the limit.
Result<ChunkHeader> decode_chunk_header(std::span<const std::byte> bytes);

/// The block CRCs of a chunk from the table in `bytes`. kCorrupt: they do not combine to the chunk's CRC.
Result<std::vector<uint32_t>> decode_chunk_table(const ChunkInfo& info, std::span<const std::byte> bytes);

/// Stripe, index, length and CRC: "000000000000002a-3-1048576-89abcdef", so that a start learns them without opening
/// the file.
std::string chunk_file_name(const ChunkInfo& info);
/// Stripe and index: "000000000000002a-3". Older versions named files so, and files that are no longer in use are
/// named so.
std::string chunk_file_name(ChunkId id);
struct ChunkFileName {
  ChunkId id;
  std::optional<ChunkInfo> info;  ///< none: the name is of an older version, which did not contain it
};
/// Reads both. kInvalidArgument: neither.
Result<ChunkFileName> parse_chunk_file_name(std::string_view name);

/// Checks `data` against the CRCs of its blocks. kCorrupt names the first block that differs, counted
/// from `first_block`.
Status check_blocks(std::span<const std::byte> data, std::span<const uint32_t> crcs, uint64_t first_block);

}  // namespace kintsugi::chunkserver
