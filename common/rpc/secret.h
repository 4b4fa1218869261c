/// The cluster secret and its uses: the proof at connect and the capabilities of chunk operations.
///
/// While one secret follows another a process has two of them: one that proves and signs, and one that it accepts as well
/// (secret_file.h).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/rpc/secret_file.h"
#include "common/runtime/clock.h"
#include "common/runtime/random.h"

namespace kintsugi::rpc {

using Mac = std::array<std::byte, 32>;

/// HMAC-SHA256 under a key derived from the cluster secret for one purpose ("handshake", "capability", ...).
///
/// Copies share their keys: when the file that they were loaded from changes, all have what it says then. Any thread may
/// call.
class Secret {
 public:
  Secret() : Secret(SecretKey{}) {}  ///< a secret of zeros, only for tests
  /// With claims it is the key of a token (token.h), which its holder uses in place of the cluster's secret.
  explicit Secret(SecretKey key, std::string claims = {})
      : Secret(std::make_shared<SharedKeys>(SecretKeys{.own = key, .claims = std::move(claims)})) {}
  explicit Secret(std::shared_ptr<SharedKeys> shared) : shared_(std::move(shared)) {}

  /// With these keys, which stay as they are.
  static Secret with(SecretKeys keys) { return Secret(std::make_shared<SharedKeys>(std::move(keys))); }
  /// Reads a secret's file (secret_file.h) and follows it. Refuses a file that others may read, one that is no secret, and
  /// that of a token.
  static Result<Secret> load(const std::string& path);
  /// Makes a new file (mode 0600); kAlreadyExists keeps what is there.
  static Result<Secret> create(const std::string& path);

  /// By the secret that proves and signs.
  Mac mac(std::string_view purpose, std::span<const std::byte> message) const;
  /// `mac` is that of the message, by one of the secrets that are accepted.
  bool accepts(std::string_view purpose, std::span<const std::byte> message,
               std::span<const std::byte> mac) const;
  /// What may be shown of a secret: another secret has another number, and it tells nothing of the secret. That of the one
  /// that proves and signs.
  uint64_t id() const;
  /// The secret with this id is accepted.
  bool accepts(uint64_t id) const;
  /// Each secret that is accepted, by itself: the one that proves first. They follow no file.
  std::vector<Secret> each() const;

  /// Claims of the token whose key this is, as they are shown to servers; empty: it is the cluster's secret.
  std::string claims() const { return shared_->keys()->claims; }
  std::shared_ptr<const SecretKeys> keys() const { return shared_->keys(); }
  /// Where the keys come from, and whether that is good.
  SharedKeys& shared() const { return *shared_; }

 private:
  std::shared_ptr<SharedKeys> shared_;
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
