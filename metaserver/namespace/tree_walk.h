/// A walk over all that is below a path, parents before their children, names in order. It may pause anywhere
/// and be taken up again later, from nothing but the last path it returned.
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

  /// `after` empty: from `root` itself on. Else from what follows it, whether or not it still exists; it must
  /// be a path below `root`.
  static Result<TreeWalk> start(const Reader& reader, std::string_view root, std::string_view after = {});

  /// Nothing when the walk is done. Entries that vanish meanwhile are skipped.
  std::optional<Item> next(const Reader& reader);

 private:
  struct Level {
    InodeId directory;
    std::string path;
    std::string after;  ///< names up to it were read
    std::deque<std::pair<std::string, Entry>> read_ahead;
    bool complete = false;  ///< nothing left to read beyond read_ahead
  };
  void fill(const Reader& reader, Level& level);

  std::optional<std::pair<std::string, Entry>> root_;  ///< still to be returned
  std::vector<Level> levels_;
};

}  // namespace kintsugi::metaserver
