/// The walk from a directory up to the root.
#pragma once

#include <type_traits>

#include "common/base/ids.h"
#include "common/proto/store.pb.h"
#include "metaserver/schema/keys.h"

namespace kintsugi::metaserver {

enum class WalkEnd {
  kStopped,  ///< `visit` returned false
  kRoot,     ///< the walk reached the root directory
  kMissing,  ///< a directory on the way does not exist
  kTooDeep,  ///< there are more than kMaxDepth directories: the store is damaged and has a loop
};
inline constexpr int kMaxDepth = 4096;

/// Calls `visit` with the directory and with each one above it, until it returns false: visit(id), or visit(id, inode)
/// which sees what is stored, too. `view` is a Reader or a Transaction.
template <class View, class Visit>
WalkEnd walk_up(const View& view, InodeId directory, const Visit& visit) {
  constexpr bool kSeesInodes = std::is_invocable_v<const Visit&, InodeId, const proto::StoredInode&>;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    if (!directory) return WalkEnd::kMissing;
    if constexpr (!kSeesInodes) {
      if (!visit(directory)) return WalkEnd::kStopped;
      if (directory == kRootInode) return WalkEnd::kRoot;
    }
    const auto inode = view.template get_message<proto::StoredInode>(keys::inode(directory));
    if (!inode) return WalkEnd::kMissing;
    if constexpr (kSeesInodes) {
      if (!visit(directory, *inode)) return WalkEnd::kStopped;
      if (directory == kRootInode) return WalkEnd::kRoot;
    }
    directory = InodeId{inode->parent()};
  }
  return WalkEnd::kTooDeep;
}

/// Where the walk up from `directory` to `other` ends: kStopped when it lies within the other one, or is it.
template <class View>
WalkEnd walk_up_to(const View& view, InodeId directory, InodeId other) {
  return walk_up(view, directory, [other](InodeId id) { return id != other; });
}

}  // namespace kintsugi::metaserver
