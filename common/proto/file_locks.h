/// Advisory locks of whole files (flock) and of ranges (fcntl): at the metaserver those of all clients, at a client
/// its own, which it tells again when the metaserver has started anew.
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/inode.pb.h"

namespace kintsugi {

class FileLocks {
 public:
  static constexpr size_t kMaxLocks = 1'000'000;

  /// The locks of other owners that are in the way.
  std::vector<proto::FileLock> conflicts(InodeId inode, const proto::FileLock& wanted, bool whole_file) const;
  /// Returns the locks that the owner of `range` has within it, in order.
  std::vector<proto::FileLock> owned(InodeId inode, const proto::FileLock& range, bool whole_file) const;
  /// Takes, changes or (NONE) gives back what the owner has of the range. False: another owner has it.
  /// kLimitExceeded, kInvalidArgument.
  Result<bool> set(InodeId inode, const proto::FileLock& wanted, bool whole_file);
  /// Adds one beside whatever its session has there. REQUIRES: no other session has anything there.
  void add_beside(InodeId inode, const proto::FileLock& lock, bool whole_file);
  void session_ended(uint64_t session);
  bool any(InodeId inode, bool whole_file, uint64_t owner) const;
  /// Some other session has locks of the inode.
  bool any_of_others(InodeId inode, uint64_t session) const;
  /// Forgets what the session has of the inode.
  void forget(InodeId inode, uint64_t session);
  /// The locks of one session, of all inodes or of one.
  std::vector<proto::HeldLock> of(uint64_t session) const;
  std::vector<proto::HeldLock> of(uint64_t session, InodeId inode) const;
  size_t count() const { return count_; }

 private:
  struct Key {
    InodeId inode;
    bool whole_file = false;
    auto operator<=>(const Key&) const = default;
  };
  using Table = std::map<Key, std::vector<proto::FileLock>>;
  static void add(const Table::value_type& locks, uint64_t session, std::vector<proto::HeldLock>& to);
  /// Forgets what the session has there; returns the table's next entry.
  Table::iterator erase(Table::iterator at, uint64_t session);
  /// `places_` follows what the session has there now.
  void note_place(const Key& key, uint64_t session);

  Table locks_;
  std::unordered_map<uint64_t, std::set<Key>> places_;  ///< key: session; the files on which it has locks
  size_t count_ = 0;
};

}  // namespace kintsugi
