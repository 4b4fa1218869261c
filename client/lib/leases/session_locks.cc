#include "client/lib/leases/session_locks.h"

namespace kintsugi::client {

SessionLocks::At SessionLocks::at(uint64_t inode, bool has_lease, bool takes, TimePoint now) const {
  if (ask_) return At::kUnclear;
  if (!has_lease) return decided_.contains(inode) ? At::kUnclear : At::kMetaserver;
  // Locks are taken only while the metaserver has heard of this session lately; they are given back at any time.
  return takes && now >= decides_until_ ? At::kUnclear : At::kHere;
}

void SessionLocks::add_all(proto::KeepSessionRequest& request) const {
  for (proto::HeldLock& held : own_.table().of(session_))
    *request.add_lock() = std::move(held);
}

void SessionLocks::add_given_back(proto::KeepSessionRequest& request, const std::set<uint64_t>& inodes,
                                  bool with_locks) const {
  for (const uint64_t inode : inodes) {
    if (!decided_.contains(inode)) continue;
    request.add_locks_of(inode);
    if (!with_locks) continue;
    for (proto::HeldLock& held : own_.table().of(session_, InodeId{inode}))
      *request.add_lock() = std::move(held);
  }
}

void SessionLocks::told_given_back(const std::set<uint64_t>& inodes) {
  for (const uint64_t inode : inodes)
    decided_.erase(inode);
}

void SessionLocks::take(bool asked, const proto::KeepSessionResponse& response) {
  if (asked) {
    ask_ = false;
    own_.replace(response.lock());
    return;
  }
  for (const proto::HeldLock& lost : response.lock())
    own_.lost(lost);
}

}  // namespace kintsugi::client
