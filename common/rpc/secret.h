/// The cluster secret and what is derived from it: the proof at connect and the capabilities of chunk
/// operations.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "common/runtime/random.h"

namespace kintsugi::rpc {

using Mac = std::array<std::byte, 32>;

/// HMAC-SHA256 under a key derived from the cluster secret for one purpose ("handshake", "capability", ...).
class Secret {
 public:
  Secret() = default;  ///< all zero: only for tests
  explicit Secret(std::array<std::byte, 32> key) : key_(key) {}

  /// 64 hex digits and a newline. Refuses a file that others may read, one of another size, or not hex.
  static Result<Secret> load(const std::string& path);
  /// Makes a new file (mode 0600); kAlreadyExists keeps what is there.
  static Result<Secret> create(const std::string& path);

  Mac mac(std::string_view purpose, std::span<const std::byte> message) const;

 private:
  std::array<std::byte, 32> key_{};
};

/// Constant-time comparison.
bool equal(std::span<const std::byte> a, std::span<const std::byte> b);

enum ChunkOperations : uint32_t { kOpRead = 1, kOpWrite = 2, kOpRepair = 4 };

/// What lets its holder act on one chunk of one server until it expires. Signed by the metaserver, checked by
/// the chunkserver without asking anyone. Wire form: operations u32, expiry u64 (wall seconds), MAC 32: 44
/// bytes.
std::string make_capability(const Secret& secret, ChunkId chunk, uint32_t operations, WallTime expiry);
/// kPermissionDenied: forged, expired, another chunk or operation.
Status check_capability(const Secret& secret, std::string_view capability, ChunkId chunk, uint32_t operation,
                        WallTime now);

}  // namespace kintsugi::rpc
