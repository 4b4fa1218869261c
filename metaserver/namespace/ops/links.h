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
  Kind kind = Kind::kAny;  ///< what must be there
  bool recursive = false;  ///< a directory goes with all below it: at once for everybody, reclaimed later
  /// Says whether somebody has the inode open, so that it must live on.
  std::function<bool(InodeId)> held = [](InodeId) { return false; };
  int64_t at_ns = 0;  ///< when it was removed; 0, or later than now: now
};
/// Removes a name, and the inode with its last one, or moves it into the trash (trash.h). kNotEmpty.
Status unlink(const Inodes& inodes, Transaction& transaction, const Caller& caller, const Unlink& what,
              FreedStripes& freed);

}  // namespace kintsugi::metaserver::ops
