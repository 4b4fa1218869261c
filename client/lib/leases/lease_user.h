/// What a session, and what stands on it, ask of whoever keeps something back under its leases.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/proto/inode.pb.h"

namespace kintsugi::client {

class LeaseUser {
 public:
  virtual ~LeaseUser() = default;

  // ---- Session asks
  /// Somebody else wants to see these inodes: their leases are to end, as by end_leases(). It may be told again until
  /// they have.
  virtual void recalled(const std::vector<uint64_t>& inodes) = 0;
  /// The leases of these inodes were lost: what was kept back of them must be given up. They are to be given back once nothing of it
  /// is under way (WriteLeases::lost).
  virtual void lost(const std::vector<uint64_t>& inodes) = 0;

  // ---- LeasedNames and LeasedLocks ask
  /// Forgets the names of these inodes, writes them out, gives their leases back and tells the metaserver, in the
  /// background.
  virtual void end_leases(const std::vector<uint64_t>& inodes) = 0;
  /// Asks for the lease of a file that is open, in the background.
  virtual void want_lease(uint64_t inode) = 0;
  /// The metaserver will not have this inode: whoever uses it is to be told.
  virtual void refused(uint64_t inode, const Status& why) = 0;
  /// It will not have a change of the attributes of this inode.
  virtual void attributes_refused(uint64_t inode, const Status& why) = 0;
  /// The metaserver has it: as it is there, and whether the session has its lease.
  virtual void written(const proto::Attributes& attributes, bool lease) = 0;
};

}  // namespace kintsugi::client
