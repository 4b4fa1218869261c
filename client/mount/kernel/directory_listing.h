/// How the entries of a directory are told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "client/mount/kernel/attributes.h"

namespace kintsugi::mount {

/// One name of a directory, for a DirectoryListing.
struct DirectoryEntry {
  std::string_view name;
  /// Opaque, and not 0: read_directory() with it continues behind this entry, whatever came and went.
  uint64_t cookie = 0;
  /// For plain listings attributes.inode and the type in attributes.mode suffice. For listings "plus" node 0 means
  /// that the kernel shall look the name up by itself; "." and ".." are always such.
  Entry entry;
};

/// Takes the entries of a directory as far as there is room. It lives until read_directory() returned.
class DirectoryListing {
 public:
  virtual ~DirectoryListing() = default;
  /// False: there is no room, the entry was not taken, and this answer is complete. An entry that was taken in a
  /// listing "plus" and has a node counts as looked up (see forget()).
  virtual bool add(const DirectoryEntry& entry) = 0;
  /// So many more entries with names of `name_bytes` fit, and are worth fetching.
  virtual size_t room(size_t name_bytes) const = 0;
};

}  // namespace kintsugi::mount
