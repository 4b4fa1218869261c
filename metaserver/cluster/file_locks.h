/// Advisory locks of whole files (flock) and of ranges (fcntl), over all clients. They live as long as their session; after a
/// start of the metaserver clients tell theirs again.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/inode.pb.h"

namespace kintsugi::metaserver {

class FileLocks {
 public:
  static constexpr size_t kMaxLocks = 1'000'000;

  /// A lock of another owner that conflicts, if there is one.
  std::optional<proto::FileLock> conflict(InodeId inode, const proto::FileLock& wanted,
                                          bool whole_file) const;
  /// Takes, changes or (NONE) gives back what the owner has of the range. False: another owner has it.
  /// kLimitExceeded, kInvalidArgument.
  Result<bool> set(InodeId inode, const proto::FileLock& wanted, bool whole_file);
  void session_ended(uint64_t session);
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

}  // namespace kintsugi::metaserver
