/// Inodes get more names, and lose them.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "metaserver/namespace/inodes.h"

namespace kintsugi::metaserver::ops {

/// Gives an inode that is no directory one more name. kAlreadyExists.
Status link(const Inodes& inodes, Transaction& transaction, const Caller& caller, InodeId id, InodeId parent,
            std::string_view name);

enum class Kind { kAny, kDirectory, kOther };
struct Unlink {
  InodeId parent;
  std::string_view name;
  Kind kind = Kind::kAny;  ///< kind of inode that must have the name
  /// A directory is removed with its contents: at once for all users; its space is reclaimed later.
  bool recursive = false;
  /// Says whether somebody has the inode open, so that it must live on.
  std::function<bool(InodeId)> held = [](InodeId) { return false; };
  int64_t at_ns = 0;  ///< time of the removal; the current time if 0 or in the future
};
/// Removes a name, and the inode with its last one, or moves it into the trash (trash.h). kNotEmpty.
Status unlink(const Inodes& inodes, Transaction& transaction, const Caller& caller, const Unlink& what,
              FreedStripes& freed);

}  // namespace kintsugi::metaserver::ops
