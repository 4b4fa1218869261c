#include "metaserver/cluster/file_locks.h"

#include <algorithm>

namespace kintsugi::metaserver {
namespace {

bool same_owner(const proto::FileLock& a, const proto::FileLock& b) {
  return a.session() == b.session() && a.owner() == b.owner();
}

bool overlap(const proto::FileLock& a, const proto::FileLock& b) {
  return a.begin() <= b.end() && b.begin() <= a.end();
}

}  // namespace

std::optional<proto::FileLock> FileLocks::conflict(InodeId inode, const proto::FileLock& wanted,
                                                   bool whole_file) const {
  const auto found = locks_.find({inode, whole_file});
  if (found == locks_.end() || wanted.type() == proto::FileLock::NONE) return std::nullopt;
  for (const proto::FileLock& lock : found->second) {
    const bool excludes =
        lock.type() == proto::FileLock::EXCLUSIVE || wanted.type() == proto::FileLock::EXCLUSIVE;
    if (excludes && !same_owner(lock, wanted) && overlap(lock, wanted)) return lock;
  }
  return std::nullopt;
}

Result<bool> FileLocks::set(InodeId inode, const proto::FileLock& wanted, bool whole_file) {
  if (wanted.begin() > wanted.end() || wanted.session() == 0)
    return Status{Code::kInvalidArgument, "the lock has no range or no owner"};
  if (conflict(inode, wanted, whole_file)) return false;
  if (wanted.type() != proto::FileLock::NONE && count_ >= kMaxLocks)
    return Status{Code::kLimitExceeded, "too many locks"};
  std::vector<proto::FileLock>& locks = locks_[{inode, whole_file}];
  count_ -= locks.size();
  std::vector<proto::FileLock> kept;
  for (const proto::FileLock& lock : locks) {
    if (!same_owner(lock, wanted) || !overlap(lock, wanted)) {
      kept.push_back(lock);
      continue;
    }
    if (lock.begin() < wanted.begin()) {
      kept.push_back(lock);
      kept.back().set_end(wanted.begin() - 1);
    }
    if (lock.end() > wanted.end()) {
      kept.push_back(lock);
      kept.back().set_begin(wanted.end() + 1);
    }
  }
  if (wanted.type() != proto::FileLock::NONE) kept.push_back(wanted);
  locks = std::move(kept);
  count_ += locks.size();
  if (locks.empty()) locks_.erase({inode, whole_file});
  return true;
}

void FileLocks::session_ended(uint64_t session) {
  for (auto at = locks_.begin(); at != locks_.end();) {
    count_ -=
        std::erase_if(at->second, [&](const proto::FileLock& lock) { return lock.session() == session; });
    at = at->second.empty() ? locks_.erase(at) : std::next(at);
  }
}

}  // namespace kintsugi::metaserver
