/// Finds the leases of what lies below a directory. There may be hundreds of thousands, and each may have to be
/// followed up to the root: so they are looked at a page at a time.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "metaserver/schema/transaction.h"
#include "metaserver/sessions/leases.h"

namespace kintsugi::metaserver {

class LeasedBelow {
 public:
  static constexpr size_t kAtOnce = 1000;  ///< leases that one call examines

  /// `reader` and `leases` outlive it. The directory itself counts as below it.
  LeasedBelow(const Reader& reader, const Leases& leases, InodeId directory)
      : reader_(reader),
        leases_(leases),
        below_{{directory, true}, {kRootInode, directory == kRootInode}},
        grants_(leases.grants()) {}

  /// Looks at some more leases. Returns false if all have been looked at.
  bool look(size_t at_most = kAtOnce);
  /// Returns all leased inodes below the directory, if nothing was moved since the first look.
  const std::vector<InodeId>& found() const { return found_; }
  /// Returns true if no lease was given since the first look: none can be missing.
  bool is_complete() const { return leases_.grants() == grants_; }

 private:
  bool lies_below(InodeId inode);

  const Reader& reader_;
  const Leases& leases_;
  std::unordered_map<InodeId, bool> below_;  ///< whether each inode examined so far lies below the directory
  const uint64_t grants_;
  Leases::Cursor at_;
  std::vector<InodeId> found_;
};

}  // namespace kintsugi::metaserver
