/// Inodes that have lost their last name. Small ones go at once; directories with something in them and files of many
/// extents become orphans, which a background task takes apart in batches of bounded size, and so do those that
/// somebody has open, until nobody has. Orphans are durable, so a restart continues where it was.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "metaserver/namespace/lookup.h"
#include "metaserver/schema/id_allocator.h"
#include "metaserver/schema/stripes.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// The value of an orphan that was open when it lost its last name.
inline constexpr std::string_view kHeldOrphan = "h";

bool is_empty_directory(const Reader& reader, InodeId directory);

struct DropOptions {
  size_t max_extents = 0;  ///< a file with more extents becomes an orphan
  int64_t now_ns = 0;      ///< time of the change; 0: the times of the inodes stay as they are
  std::function<bool(InodeId)> held = [](InodeId) { return false; };  ///< whether somebody has the inode open
  /// Whether the directory is empty, if the caller has already looked, which may take long.
  std::optional<bool> is_empty = std::nullopt;
};
/// Takes one name from the inode, whose entry is gone. With the last one it is deleted and its stripes are freed, or it
/// becomes an orphan. A directory is an orphan when it has entries.
void drop_name(Transaction& transaction, Entry entry, const DropOptions& options, FreedStripes& freed);

/// Gives `inode`, which the caller stores, an empty content, and leaves the one that it had to an orphan.
Status leave_content(Transaction& transaction, IdAllocator& ids, InodeId id, proto::StoredInode& inode);

/// Takes orphans that nobody holds apart, one after the other. It remembers how far it came: whoever looked from the
/// beginning each time would pass over all that was removed before, which the store has to skip one by one until it is
/// compacted.
class Reclaim {
 public:
  static constexpr size_t kMaxExamined = 1000;  ///< orphans that somebody has open, examined in one step

  /// Does one bounded step. False: there are none, or more that are held than one step looks at.
  bool step(Transaction& transaction, const std::function<bool(InodeId)>& held, FreedStripes& freed);

 private:
  std::optional<InodeId> next_orphan(const Transaction& transaction,
                                     const std::function<bool(InodeId)>& held);
  void reclaim_file(Transaction& transaction, InodeId id, proto::StoredInode inode, FreedStripes& freed);
  void reclaim_directory(Transaction& transaction, InodeId id, const proto::StoredInode& inode,
                         const std::function<bool(InodeId)>& held, FreedStripes& freed);

  InodeId orphan_;       ///< the orphan that the last step worked on or examined last
  std::string name_;     ///< name up to which the entries are deleted
  uint64_t offset_ = 0;  ///< offset up to which the extents are deleted
};

}  // namespace kintsugi::metaserver
