/// Files whose bytes lie badly: in very many small extents, or in stripes that are mostly waste. Repair managers are
/// asked to write them anew where they lie better (repair_manager/compaction/compactor.h).
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "common/base/ids.h"
#include "common/runtime/clock.h"
#include "metaserver/schema/extents.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// What is not known here any more, as after a restart, is found by looking at all files, a few at a time.
class Compactions {
 public:
  static constexpr size_t kSmallExtents = 64;  ///< number of small extents that make a file worth the work
  static constexpr uint64_t kSmallBytes = 256 << 10;  ///< an extent of fewer is small
  /// Time after the last small write until a file is named.
  static constexpr Duration kQuiet = std::chrono::seconds(5);
  /// Time after which it is named even while it is written to.
  static constexpr Duration kLongest = std::chrono::seconds(30);
  static constexpr size_t kMaxNoted = 100'000, kLookedAt = 1'000, kInodesOfStep = 200;
  static constexpr size_t kExtentsOfFile = 4'096, kExtentsOfStep = 10'000;

  /// The clock must outlive it.
  explicit Compactions(const runtime::Clock& clock) : clock_(clock) {}

  /// Extents were written to the file, so many of them small; `waste`: a stripe was left with much that nobody names.
  void wrote(InodeId inode, size_t small, bool waste);
  /// Files to compact now, among those that are `mine`. They are forgotten here: what is not done is found again.
  std::vector<InodeId> take(const std::function<bool(InodeId)>& mine, size_t at_most);
  /// Looks at the next inodes. False: that was the end, and the next step begins at the first inode.
  /// `crowded`: any bytes that the metadata keeps are to go to stripes.
  bool scan_step(const Reader& reader, bool crowded);

  size_t waiting() const { return wanted_.size(); }

 private:
  struct Note {
    size_t small = 0;
    TimePoint first{}, last{};
  };

  const runtime::Clock& clock_;
  std::map<InodeId, Note> noted_;
  std::set<InodeId> wanted_;  ///< inodes of `noted_` that are worth the work
  InodeId next_{};            ///< take() begins here, to be fair
  InodeId scanned_{};         ///< the scan has come up to this inode
};

/// More than a quarter of the stripe is named by nobody.
bool is_wasteful(const proto::StoredStripe& stripe);

}  // namespace kintsugi::metaserver
