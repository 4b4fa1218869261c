/// Locks of inodes under a lease: the session that has the lease decides about them, and is asked to give it back
/// before anybody else locks anything there.
#pragma once

#include <cstdint>

#include "common/proto/file_locks.h"
#include "common/proto/inode.pb.h"
#include "metaserver/sessions/leases.h"

namespace kintsugi::metaserver {

/// The metaserver knows the locks of an inode under a lease as they were when the session got the lease. That means
/// nothing until the session has told which are left: with the end of the lease, after a start of the metaserver, or
/// when another process continues with the session.
class LeasedLocks {
 public:
  /// References outlive it.
  LeasedLocks(FileLocks& locks, const Leases& leases) : locks_(locks), leases_(leases) {}

  /// Takes what a session tells of its locks, and answers it. REQUIRES: comes before Leases::keep, which ends leases.
  /// `unknown`: the session was not known, or has not told anything since the metaserver started; `doubtful`: what it
  /// had may be others' by now (Sessions::is_doubtful), so it has none of it any more.
  void keep(const proto::KeepSessionRequest& request, bool unknown, bool doubtful,
            proto::KeepSessionResponse& response);

  /// Locks all of the inode for a session that has lost the lease of it: nobody knows what it has locked there until it
  /// says so, or has ended.
  void lost(uint64_t session, InodeId inode);

 private:
  FileLocks& locks_;
  const Leases& leases_;
};

}  // namespace kintsugi::metaserver
