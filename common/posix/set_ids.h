/// The bits of a mode that lend the owner's or the group's rights to whoever executes the file, and the rules of Linux
/// for when they are set and cleared. Pure rules, for whoever makes and changes inodes.
#pragma once

#include <cstdint>

#include "common/posix/access_list.h"

namespace kintsugi::posix {

inline constexpr uint32_t kPermissionBits = 07777;
inline constexpr uint32_t kSetUserId = 04000, kSetGroupId = 02000, kSticky = 01000;
inline constexpr uint32_t kSetIdBits = kSetUserId | kSetGroupId;
inline constexpr uint32_t kGroupExecutes = 0010;

/// The mode of a file that somebody without privileges writes to, or whose owner changes. Where the group may not
/// execute, the group's bit stands for locks that keep others out, and stays.
constexpr uint32_t without_set_ids(uint32_t mode) {
  return mode & ~(kSetUserId | ((mode & kGroupExecutes) != 0 ? kSetGroupId : 0));
}

/// What a new inode gets by who makes it, and where.
struct NewInode {
  uint32_t group = 0;
  /// Permission and set-ID bits, without the file type. The umask, or the default access list of the directory, is
  /// applied to it afterwards.
  uint32_t mode = 0;
};
/// `directory` is where it is made, `mode` what its maker asks for.
NewInode new_inode(const Caller& maker, const Permissions& directory, uint32_t mode, bool is_directory);

}  // namespace kintsugi::posix
