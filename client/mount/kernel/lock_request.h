/// Locks of fcntl(2) and flock(2).
#pragma once

#include <cstdint>

#include "client/mount/kernel/caller.h"

namespace kintsugi::mount {

enum class LockType { kRead, kWrite, kUnlock };

struct Lock {
  LockType type = LockType::kUnlock;
  uint64_t start = 0;
  /// The last byte. UINT64_MAX and INT64_MAX mean the end of the file, however far that is.
  uint64_t end = UINT64_MAX;
  uint32_t pid = 0;  ///< Its holder; F_GETLK shows it.
};

struct LockRequest {
  Handle handle = 0;
  LockOwner owner = 0;
  Lock lock;
  /// The lock is one of flock(2), on the whole file; it does not meet those of fcntl(2).
  bool flock = false;
  bool wait = false;  ///< Without it the answer is kWouldBlock when somebody holds the lock.
};

}  // namespace kintsugi::mount
