/// Walks from an inode towards the root.
#pragma once

#include "common/base/ids.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

inline constexpr int kMaxDepth = 4096;  ///< of directories: a loop would be a damaged store

/// The inode is the directory, or lies below it. True as well where that cannot be told: an inode that the metaserver does not know
/// yet, or one that has had several names.
inline bool may_lie_within(const Reader& reader, InodeId inode, InodeId directory) {
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    if (inode == directory) return true;
    if (inode == kRootInode) return false;
    const auto stored = reader.get_message<proto::StoredInode>(keys::inode(inode));
    if (!stored || stored->linked() || stored->parent() == 0) return true;
    inode = InodeId{stored->parent()};
  }
  return true;
}

}  // namespace kintsugi::metaserver
