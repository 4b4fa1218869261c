/// The facts about a stored chunk that everybody knows, and the limits of the store.
#pragma once

#include <cstdint>

#include <fmt/format.h>

#include "common/base/crc32c.h"
#include "common/base/ids.h"
#include "common/base/math.h"
#include "common/base/status.h"
#include "common/runtime/disk.h"

namespace kintsugi::chunkserver {

inline constexpr uint64_t kMaxChunkBytes = 256ull << 20;
inline constexpr uint64_t kSmallChunkBytes = 1ull << 20;  ///< chunks below this live in segments
inline constexpr size_t kMaxPolicyBytes = 64;             ///< longest name of a policy

struct ChunkInfo {
  ChunkId id;
  uint64_t length = 0;  ///< bytes
  uint32_t crc = 0;     ///< CRC32C of the whole chunk
  bool operator==(const ChunkInfo&) const = default;
};

/// Returns the error of a call that asks for a chunk which is not stored here.
inline Status not_here(ChunkId id) {
  return {Code::kNotFound, fmt::format("chunk {} is not here", id)};
}

/// The least whole number of disk blocks that holds `bytes`, in bytes.
constexpr uint64_t aligned(uint64_t bytes) {
  return round_up(bytes, runtime::kDiskAlignment);
}
/// Blocks of a chunk of `bytes`; the last one may be short.
constexpr uint64_t blocks_of(uint64_t bytes) {
  return divide_up(bytes, kBlockBytes);
}

}  // namespace kintsugi::chunkserver
