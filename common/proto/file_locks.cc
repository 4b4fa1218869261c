#include "common/proto/file_locks.h"

#include <algorithm>

namespace kintsugi {
namespace {

bool same_owner(const proto::FileLock& a, const proto::FileLock& b) {
  return a.session() == b.session() && a.owner() == b.owner();
}

bool overlap(const proto::FileLock& a, const proto::FileLock& b) {
  return a.begin() <= b.end() && b.begin() <= a.end();
}

/// They overlap, or one begins where the other ends.
bool touch(const proto::FileLock& a, const proto::FileLock& b) {
  return a.begin() <= b.end() + 1 && b.begin() <= a.end() + 1;
}

}  // namespace

std::vector<proto::FileLock> FileLocks::conflicts(InodeId inode, const proto::FileLock& wanted,
                                                  bool whole_file) const {
  std::vector<proto::FileLock> found;
  const auto locks = locks_.find({inode, whole_file});
  if (locks == locks_.end() || wanted.type() == proto::FileLock::NONE) return found;
  for (const proto::FileLock& lock : locks->second) {
    const bool excludes =
        lock.type() == proto::FileLock::EXCLUSIVE || wanted.type() == proto::FileLock::EXCLUSIVE;
    if (excludes && !same_owner(lock, wanted) && overlap(lock, wanted)) found.push_back(lock);
  }
  return found;
}

std::vector<proto::FileLock> FileLocks::owned(InodeId inode, const proto::FileLock& range,
                                              bool whole_file) const {
  std::vector<proto::FileLock> found;
  const auto locks = locks_.find({inode, whole_file});
  if (locks == locks_.end()) return found;
  for (const proto::FileLock& lock : locks->second) {
    if (!same_owner(lock, range) || !overlap(lock, range)) continue;
    proto::FileLock& part = found.emplace_back(lock);
    part.set_begin(std::max(lock.begin(), range.begin()));
    part.set_end(std::min(lock.end(), range.end()));
  }
  return found;
}

Result<bool> FileLocks::set(InodeId inode, const proto::FileLock& wanted, bool whole_file) {
  if (wanted.begin() > wanted.end() || wanted.session() == 0)
    return Status{Code::kInvalidArgument, "the lock has no range or no owner"};
  if (!conflicts(inode, wanted, whole_file).empty()) return false;
  if (wanted.type() != proto::FileLock::NONE && count_ >= kMaxLocks)
    return Status{Code::kLimitExceeded, "too many locks"};
  std::vector<proto::FileLock>& locks = locks_[{inode, whole_file}];
  count_ -= locks.size();
  std::vector<proto::FileLock> kept;
  proto::FileLock joined = wanted;
  for (const proto::FileLock& lock : locks) {
    if (same_owner(lock, wanted) && lock.type() == wanted.type() && touch(lock, wanted)) {
      joined.set_begin(std::min(joined.begin(), lock.begin()));
      joined.set_end(std::max(joined.end(), lock.end()));
      continue;
    }
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
  // Those of one owner are in order, as whoever asks for the first one in the way expects it.
  const auto follows = [&](const proto::FileLock& lock) {
    return same_owner(lock, joined) && lock.begin() > joined.begin();
  };
  if (wanted.type() != proto::FileLock::NONE) kept.insert(std::ranges::find_if(kept, follows), joined);
  locks = std::move(kept);
  count_ += locks.size();
  if (locks.empty()) locks_.erase({inode, whole_file});
  note_place({inode, whole_file}, wanted.session());
  return true;
}

void FileLocks::note_place(const Key& key, uint64_t session) {
  const auto locks = locks_.find(key);
  const auto is_its = [&](const proto::FileLock& lock) { return lock.session() == session; };
  if (locks != locks_.end() && std::ranges::any_of(locks->second, is_its)) {
    places_[session].insert(key);
    return;
  }
  const auto places = places_.find(session);
  if (places == places_.end()) return;
  places->second.erase(key);
  if (places->second.empty()) places_.erase(places);
}

FileLocks::Table::iterator FileLocks::erase(Table::iterator at, uint64_t session) {
  count_ -= std::erase_if(at->second, [&](const proto::FileLock& lock) { return lock.session() == session; });
  return at->second.empty() ? locks_.erase(at) : std::next(at);
}

void FileLocks::add_beside(InodeId inode, const proto::FileLock& lock, bool whole_file) {
  if (count_ >= kMaxLocks) return;
  locks_[{inode, whole_file}].push_back(lock);
  places_[lock.session()].insert({inode, whole_file});
  ++count_;
}

void FileLocks::session_ended(uint64_t session) {
  const auto places = places_.extract(session);
  if (places.empty()) return;
  for (const Key& key : places.mapped())
    (void)erase(locks_.find(key), session);
}

bool FileLocks::any(InodeId inode, bool whole_file, uint64_t owner) const {
  const auto found = locks_.find({inode, whole_file});
  return found != locks_.end() && std::ranges::any_of(found->second, [&](const proto::FileLock& lock) {
           return lock.owner() == owner;
         });
}

bool FileLocks::any_of_others(InodeId inode, uint64_t session) const {
  for (auto at = locks_.lower_bound({inode, false}); at != locks_.end() && at->first.inode == inode; ++at)
    for (const proto::FileLock& lock : at->second)
      if (lock.session() != session) return true;
  return false;
}

void FileLocks::forget(InodeId inode, uint64_t session) {
  for (auto at = locks_.lower_bound({inode, false}); at != locks_.end() && at->first.inode == inode;) {
    const Key key = at->first;
    at = erase(at, session);
    note_place(key, session);
  }
}

void FileLocks::add(const Table::value_type& locks, uint64_t session, std::vector<proto::HeldLock>& to) {
  for (const proto::FileLock& lock : locks.second) {
    if (lock.session() != session) continue;
    proto::HeldLock& one = to.emplace_back();
    one.set_inode(locks.first.inode.value);
    one.set_whole_file(locks.first.whole_file);
    *one.mutable_lock() = lock;
  }
}

std::vector<proto::HeldLock> FileLocks::of(uint64_t session) const {
  std::vector<proto::HeldLock> held;
  if (const auto places = places_.find(session); places != places_.end())
    for (const Key& key : places->second)
      add(*locks_.find(key), session, held);
  return held;
}

std::vector<proto::HeldLock> FileLocks::of(uint64_t session, InodeId inode) const {
  std::vector<proto::HeldLock> held;
  for (auto at = locks_.lower_bound({inode, false}); at != locks_.end() && at->first.inode == inode; ++at)
    add(*at, session, held);
  return held;
}

}  // namespace kintsugi
