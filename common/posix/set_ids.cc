#include "common/posix/set_ids.h"

namespace kintsugi::posix {

NewInode new_inode(const Caller& maker, const Permissions& directory, uint32_t mode, bool is_directory) {
  NewInode made{.group = maker.gid, .mode = mode & kPermissionBits};
  if ((directory.mode & kSetGroupId) == 0) return made;
  // The directory hands its group on, and to directories that it does so.
  made.group = directory.group;
  const bool may_lend = maker.is_root() || maker.in_group(directory.group);
  if (is_directory) {
    made.mode |= kSetGroupId;
  } else if (!may_lend && (made.mode & kGroupExecutes) != 0) {
    made.mode &= ~kSetGroupId;
  }
  return made;
}

}  // namespace kintsugi::posix
