/// The locks that are held on one file.
#pragma once

#include <list>

#include "client/mount/kernel/file_system.h"

namespace kintsugi::mount {

class HeldLocks {
 public:
  /// Whether somebody else's lock is in the way of that one; `holder`, unless null, becomes that lock.
  bool conflict(const LockRequest& request, Lock* holder) const;
  /// Sets or removes a lock. REQUIRES: there is no conflict.
  void apply(const LockRequest& request);
  /// Removes all locks of one owner that were set by flock(2), or all others of that owner.
  void release(LockOwner owner, bool flock) {
    held_.remove_if([&](const HeldLock& held) { return held.owner == owner && held.flock == flock; });
  }

 private:
  struct HeldLock {
    LockOwner owner;
    bool flock;
    Lock lock;
  };
  std::list<HeldLock> held_;
};

}  // namespace kintsugi::mount
