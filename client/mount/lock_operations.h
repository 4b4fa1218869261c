/// Advisory locks: decided under the lease of the file (LeasedLocks) or by the metaserver; one that waits asks again
/// and again.
#pragma once

#include "client/lib/files/open_files.h"
#include "client/mount/kernel/file_system.h"
#include "client/mount/open_handles.h"
#include "common/runtime/random.h"
#include "common/runtime/task_group.h"

namespace kintsugi::mount {

/// The operations are those of FileSystem.
class LockOperations {
 public:
  /// References outlive it. When `tasks` stop, locks that wait are interrupted.
  LockOperations(runtime::Random& random, client::OpenFiles& files, OpenHandles& handles,
                 runtime::TaskGroup& tasks)
      : random_(random), files_(files), handles_(handles), tasks_(tasks) {}

  asio::awaitable<Result<Lock>> get_lock(const Caller& caller, NodeId node, const LockRequest& request);
  asio::awaitable<Status> set_lock(const Caller& caller, NodeId node, const LockRequest& request);
  asio::awaitable<Status> unlock(const Caller& caller, NodeId node, LockOwner owner, bool whole_file);

 private:
  /// The owner was told that it did not get what `wanted` asked for, and it was granted all the same: the range is again as
  /// `before` says, and what else the owner has in the file stays.
  asio::awaitable<void> give_back(const Caller& caller, proto::LockRequest wanted,
                                  std::vector<proto::FileLock> before);
  proto::LockRequest lock_request(NodeId node, const LockRequest& request) const;

  runtime::Random& random_;
  client::OpenFiles& files_;
  OpenHandles& handles_;
  runtime::TaskGroup& tasks_;
};

}  // namespace kintsugi::mount
