#include "tests/mount/held_locks.h"

#include <utility>

namespace kintsugi::mount {

bool HeldLocks::conflict(const LockRequest& request, Lock* holder) const {
  if (request.lock.type == LockType::kUnlock) return false;
  for (const HeldLock& held : held_) {
    if (held.flock != request.flock || held.owner == request.owner) continue;
    if (held.lock.end < request.lock.start || request.lock.end < held.lock.start) continue;
    if (held.lock.type == LockType::kRead && request.lock.type == LockType::kRead) continue;
    if (holder != nullptr) *holder = held.lock;
    return true;
  }
  return false;
}

void HeldLocks::apply(const LockRequest& request) {
  std::list<HeldLock> kept;
  for (const HeldLock& held : held_) {
    const bool meets = held.flock == request.flock && held.owner == request.owner &&
                       held.lock.end >= request.lock.start && held.lock.start <= request.lock.end;
    if (!meets) {
      kept.push_back(held);
      continue;
    }
    if (held.lock.start < request.lock.start) {
      kept.push_back(held);
      kept.back().lock.end = request.lock.start - 1;
    }
    if (held.lock.end > request.lock.end) {
      kept.push_back(held);
      kept.back().lock.start = request.lock.end + 1;
    }
  }
  if (request.lock.type != LockType::kUnlock) kept.push_back({request.owner, request.flock, request.lock});
  held_ = std::move(kept);
}

}  // namespace kintsugi::mount
