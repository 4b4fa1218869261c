/// The cluster secret and its uses: the proof at connect and the capabilities of chunk operations.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "common/runtime/random.h"

namespace kintsugi::rpc {

using Mac = std::array<std::byte, 32>;

/// HMAC-SHA256 under a key derived from the cluster secret for one purpose ("handshake", "capability", ...).
class Secret {
 public:
  Secret() = default;  ///< a secret of zeros, only for tests
  /// With claims it is the key of a token (token.h), which its holder uses in place of the cluster's secret.
  explicit Secret(std::array<std::byte, 32> key, std::string claims = {})
      : key_(key), claims_(std::move(claims)) {}

  /// Reads 64 hex digits and a newline. Refuses a file that others may read, one of another size, or not hex, and that
  /// of a token.
  static Result<Secret> load(const std::string& path);
  /// Makes a new file (mode 0600); kAlreadyExists keeps what is there.
  static Result<Secret> create(const std::string& path);

  Mac mac(std::string_view purpose, std::span<const std::byte> message) const;
  /// Claims of the token whose key this is, as they are shown to servers; empty: it is the cluster's secret.
  const std::string& claims() const { return claims_; }

 private:
  std::array<std::byte, 32> key_{};
  std::string claims_;
};

/// Compares in constant time, so that a forger learns nothing from how long it takes.
bool equal(std::span<const std::byte> a, std::span<const std::byte> b);

enum ChunkOperations : uint32_t { kOpRead = 1, kOpWrite = 2, kOpRepair = 4 };

/// Makes a capability, which lets its holder act on one chunk until it expires. The metaserver signs it, chunkservers
/// check it without asking anyone. Its wire form has 44 bytes: operations u32, expiry u64 (wall seconds), MAC 32.
std::string make_capability(const Secret& secret, ChunkId chunk, uint32_t operations, WallTime expiry);
/// kPermissionDenied: the capability is forged, expired, or for another chunk or operation.
Status check_capability(const Secret& secret, std::string_view capability, ChunkId chunk, uint32_t operation,
                        WallTime now);

}  // namespace kintsugi::rpc
