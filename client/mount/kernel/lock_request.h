/// Locks of fcntl(2) and flock(2).
#pragma once

#include <cstdint>

#include "client/mount/kernel/caller.h"

namespace kintsugi::mount {

enum class LockType { kRead, kWrite, kUnlock };

struct Lock {
  LockType type = LockType::kUnlock;
  uint64_t start = 0;
  uint64_t end = UINT64_MAX;  ///< inclusive; UINT64_MAX or INT64_MAX: up to the end of the file, however far
  uint32_t pid = 0;           ///< who holds it, for F_GETLK
};

struct LockRequest {
  Handle handle = 0;
  LockOwner owner = 0;
  Lock lock;
  bool flock = false;  ///< flock(2), of the whole file; it does not meet fcntl(2) locks
  bool wait = false;   ///< else kWouldBlock when somebody holds it
};

}  // namespace kintsugi::mount
