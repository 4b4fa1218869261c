/// A walk over all that is below a path, parents before their children, names in order. It may pause anywhere and be
/// taken up again later, from nothing but the last path it returned.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "metaserver/namespace/lookup.h"

namespace kintsugi::metaserver {

class TreeWalk {
 public:
  struct Item {
    std::string path;
    InodeId id;
    proto::StoredInode inode;
  };

  /// Begins at `root` itself, or at what follows `after`, a path below `root` that need not exist any more.
  static Result<TreeWalk> start(const Reader& reader, std::string_view root, std::string_view after = {});

  /// Begins at this inode, which is called `path`, in whatever is then read.
  static TreeWalk below(const Reader& reader, InodeId root, std::string path);

  /// The next item; nothing when the walk is done. Entries that vanish meanwhile are skipped.
  std::optional<Item> next(const Reader& reader);

 private:
  struct Level {
    InodeId directory;
    std::string path;
    std::string after;  ///< names up to this one have been read
    std::deque<std::pair<std::string, Entry>> read_ahead;
    bool complete = false;  ///< the directory has been read to its end
  };
  void fill(const Reader& reader, Level& level);

  std::optional<std::pair<std::string, Entry>> root_;  ///< the start of the walk, until it has been returned
  std::vector<Level> levels_;
};

}  // namespace kintsugi::metaserver
