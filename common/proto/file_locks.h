/// Advisory locks of whole files (flock) and of ranges (fcntl): at the metaserver those of all clients, at a client its own, which it
/// tells again when the metaserver has started anew.
#pragma once

#include <map>
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
  /// Takes, changes or (NONE) gives back what the owner has of the range. False: another owner has it.
  /// kLimitExceeded, kInvalidArgument.
  Result<bool> set(InodeId inode, const proto::FileLock& wanted, bool whole_file);
  void session_ended(uint64_t session);
  bool any(InodeId inode, bool whole_file, uint64_t owner) const;
  /// Those of one session.
  std::vector<proto::HeldLock> of(uint64_t session) const;
  size_t count() const { return count_; }

 private:
  struct Key {
    InodeId inode;
    bool whole_file = false;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::vector<proto::FileLock>> locks_;
  size_t count_ = 0;
};

}  // namespace kintsugi
