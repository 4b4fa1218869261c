/// A name goes from one place to another.
#pragma once

#include <functional>
#include <string_view>

#include "metaserver/namespace/inodes.h"

namespace kintsugi::metaserver::ops {

/// What is to happen to an inode that has the new name already.
enum class Target { kReplace, kMustNotExist, kExchange };
struct Move {
  InodeId from;
  std::string_view name;
  InodeId to;
  std::string_view to_name;
  Target target = Target::kReplace;
  /// Says whether somebody has the replaced inode open, so that it must live on.
  std::function<bool(InodeId)> held = [](InodeId) { return false; };
};
/// Renames. A file replaces a file, a directory an empty directory. kInvalidArgument for a directory into itself.
Status move(const Inodes& inodes, Transaction& transaction, const Caller& caller, const Move& what,
            FreedStripes& freed);

/// Ok when `target` may give way to what `moved` is.
Status check_replaceable(const Transaction& transaction, Entry target, Entry moved);

}  // namespace kintsugi::metaserver::ops
