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
  /// Ends the leases of these inodes, as end_leases() does: somebody else wants to see them. It may be called again
  /// until they have ended.
  virtual void on_recalled(const std::vector<uint64_t>& inodes) = 0;
  /// Gives up what was kept back of these inodes: their leases were lost. They are to be given back once nothing of it
  /// is under way (WriteLeases::lost).
  virtual void on_lost(const std::vector<uint64_t>& inodes) = 0;

  // ---- LeasedNames and LeasedLocks ask
  /// Forgets the names of these inodes, writes them out, gives their leases back and tells the metaserver, in the
  /// background.
  virtual void end_leases(const std::vector<uint64_t>& inodes) = 0;
  /// Asks for the lease of a file that is open, in the background.
  virtual void want_lease(uint64_t inode) = 0;
  /// Tells whoever uses this inode that the metaserver will not have it.
  virtual void on_refused(uint64_t inode, const Status& why) = 0;
  /// Tells whoever uses this inode that the metaserver will not have a change of its attributes.
  virtual void on_attributes_refused(uint64_t inode, const Status& why) = 0;
  /// Takes the attributes of an inode as the metaserver has stored them, and whether the session has its lease.
  virtual void on_written(const proto::Attributes& attributes, bool lease) = 0;
};

}  // namespace kintsugi::client
