/// The TLS identity of a process, which follows its files.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "common/runtime/tls/tls_identity.h"

namespace kintsugi::runtime {

/// Any thread may call. New connections have the newest identity that could be read; old ones keep theirs.
class TlsCredentials {
 public:
  /// How often the files are looked at, at most.
  static constexpr Duration kLookInterval = std::chrono::seconds(5);

  static Result<std::shared_ptr<TlsCredentials>> load(TlsFiles files);

  /// Looks at the files when that was long ago, and reads them again when one has changed. What cannot be used is told
  /// in the log once, and the identity stays as it was.
  std::shared_ptr<const TlsIdentity> current(TimePoint now);

 private:
  /// Which file it is and how old: changes with every replacement and every write.
  struct Stamp {
    uint64_t inode = 0, bytes = 0;
    int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  using Stamps = std::array<Stamp, 3>;

  TlsCredentials(TlsFiles files, Stamps stamps, std::shared_ptr<const TlsIdentity> identity)
      : files_(std::move(files)), stamps_(stamps), identity_(std::move(identity)) {}
  static Stamps stamps_of(const TlsFiles& files);

  const TlsFiles files_;
  std::mutex mutex_;
  Stamps stamps_;  ///< stamps of the files that were tried last
  std::shared_ptr<const TlsIdentity> identity_;
  TimePoint look_again_{};
};

}  // namespace kintsugi::runtime
