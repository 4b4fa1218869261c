/// The files by which a process proves who it is: that of the cluster's secret, or that of a token. A process follows its
/// file while it runs.
///
/// A secret's file has one line, and a second one while one secret follows another (`kintsugi key rotate`):
///
/// ```
/// 64 hexadecimal digits             proves and signs
/// next 64 hexadecimal digits        is accepted, and will prove and sign
/// former 64 hexadecimal digits      is accepted, and did so before
/// ```
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/runtime/clock.h"

namespace kintsugi::rpc {

using SecretKey = std::array<std::byte, 32>;

/// What a process has at one moment.
struct SecretKeys {
  /// What the second secret is to the first one.
  enum class Other : uint8_t { kNone, kNext, kFormer };

  SecretKey own{};  ///< proves and signs
  Other other_is = Other::kNone;
  SecretKey other{};   ///< accepted as well, when there is one
  std::string claims;  ///< claims of the token whose key `own` is; empty: `own` is the cluster's secret

  bool operator==(const SecretKeys&) const = default;
};

/// The text of a secret's file. REQUIRES: there are no claims.
std::string secret_text(const SecretKeys& keys);
/// kInvalidArgument: the file is not one of a secret; kPermissionDenied: others may read it.
Result<SecretKeys> read_secret(const std::string& path);
/// Returns a secret that nobody has.
Result<SecretKey> random_secret();

/// What several parts of a process share: the keys, which follow a file if there is one. Any thread may call.
class SharedKeys {
 public:
  /// How often the file is looked at, at most.
  static constexpr Duration kLookInterval = std::chrono::seconds(1);

  /// They never change.
  explicit SharedKeys(SecretKeys keys) : keys_(std::make_shared<const SecretKeys>(std::move(keys))) {}
  static Result<std::shared_ptr<SharedKeys>> follow_secret(const std::string& path);
  static Result<std::shared_ptr<SharedKeys>> follow_token(const std::string& path);

  std::shared_ptr<const SecretKeys> keys() const;
  /// Grows whenever the keys change.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  /// When the file was written from which the secret that proves now was read first; the epoch when there is no file.
  WallTime in_use_since() const;
  /// Why the file as it is now is not used; empty: it is.
  std::string complaint() const;

  /// Looks at the file when that was long ago, and reads it again when it has changed. What cannot be used is told in the
  /// log once and tried again, and the keys stay as they are.
  void look(TimePoint now);
  void look_at_once();

 private:
  using Read = Result<SecretKeys> (*)(const std::string& path);
  /// Which file it is and how old: changes with every replacement and every write.
  struct Stamp {
    uint64_t inode = 0, bytes = 0;
    WallTime changed{};
    bool operator==(const Stamp&) const = default;
  };

  static Result<std::shared_ptr<SharedKeys>> follow(const std::string& path, Read read);
  static Stamp stamp_of(const std::string& path);
  void read_again();

  std::string path_;  ///< empty: there is no file
  Read read_ = nullptr;
  mutable std::mutex mutex_;
  Stamp stamp_;  ///< stamp of the file that was tried last
  std::shared_ptr<const SecretKeys> keys_;
  std::atomic<uint64_t> version_ = 1;
  WallTime in_use_since_{};
  std::string complaint_;
  TimePoint look_again_{};
};

}  // namespace kintsugi::rpc
