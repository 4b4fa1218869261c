#include "client/mount/kernel/operations/operation.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "client/mount/kernel/operations/attributes.h"
#include "client/mount/kernel/operations/directories.h"
#include "client/mount/kernel/operations/files.h"
#include "client/mount/kernel/operations/locks.h"
#include "client/mount/kernel/operations/names.h"
#include "client/mount/kernel/operations/xattrs.h"
#include "client/mount/kernel/protocol.h"

namespace kintsugi::mount {
namespace {

constexpr sight::Site site(std::string_view name) {
  return {name, {"bytes"}};
}

constexpr Operation kOperations[] = {
    {FUSE_LOOKUP, site("mount.lookup"), serve::lookup},
    {FUSE_GETATTR, site("mount.get_attributes"), serve::get_attributes},
    {FUSE_SETATTR, site("mount.set_attributes"), serve::set_attributes},
    {FUSE_READLINK, site("mount.read_link"), serve::read_link},
    {FUSE_STATFS, site("mount.space"), serve::space},

    {FUSE_SYMLINK, site("mount.symlink"), serve::symlink},
    {FUSE_MKNOD, site("mount.make_node"), serve::make_node},
    {FUSE_MKDIR, site("mount.make_directory"), serve::make_directory},
    {FUSE_UNLINK, site("mount.unlink"), serve::unlink},
    {FUSE_RMDIR, site("mount.remove_directory"), serve::remove_directory},
    {FUSE_RENAME, site("mount.rename"), serve::rename},
    {FUSE_RENAME2, site("mount.rename"), serve::rename_with_flags},
    {FUSE_LINK, site("mount.link"), serve::link},

    {FUSE_OPEN, site("mount.open"), serve::open},
    {FUSE_CREATE, site("mount.create"), serve::create},
    {FUSE_TMPFILE, site("mount.create_nameless"), serve::create_nameless},
    {FUSE_READ, site("mount.read"), serve::read},
    {FUSE_WRITE, site("mount.write"), serve::write},
    {FUSE_FLUSH, site("mount.flush"), serve::flush},
    {FUSE_FSYNC, site("mount.fsync"), serve::fsync},
    {FUSE_RELEASE, site("mount.release"), serve::release},
    {FUSE_FALLOCATE, site("mount.allocate"), serve::allocate},
    {FUSE_LSEEK, site("mount.seek"), serve::seek},
    {FUSE_COPY_FILE_RANGE, site("mount.copy_range"), serve::copy_range},

    {FUSE_OPENDIR, site("mount.open_directory"), serve::open_directory},
    {FUSE_READDIR, site("mount.read_directory"), serve::read_directory},
    {FUSE_READDIRPLUS, site("mount.read_directory"), serve::read_directory_plus},
    {FUSE_FSYNCDIR, site("mount.fsync_directory"), serve::fsync_directory},
    {FUSE_RELEASEDIR, site("mount.release_directory"), serve::release_directory},

    {FUSE_SETXATTR, site("mount.set_xattr"), serve::set_xattr},
    {FUSE_GETXATTR, site("mount.get_xattr"), serve::get_xattr},
    {FUSE_LISTXATTR, site("mount.list_xattrs"), serve::list_xattrs},
    {FUSE_REMOVEXATTR, site("mount.remove_xattr"), serve::remove_xattr},

    {FUSE_GETLK, site("mount.get_lock"), serve::get_lock},
    {FUSE_SETLK, site("mount.set_lock"), serve::set_lock},
    {FUSE_SETLKW, site("mount.wait_for_lock"), serve::wait_for_lock, GivesUp::kAtAnySignal},
};

constexpr uint32_t kLastOpcode =
    std::max_element(std::begin(kOperations), std::end(kOperations), [](const auto& one, const auto& other) {
      return one.opcode < other.opcode;
    })->opcode;

constexpr auto kByOpcode = [] {
  std::array<const Operation*, kLastOpcode + 1> all{};
  for (const Operation& operation : kOperations)
    all[operation.opcode] = &operation;
  return all;
}();
static_assert(std::count(kByOpcode.begin(), kByOpcode.end(), nullptr) ==
                  std::ptrdiff_t{kByOpcode.size() - std::size(kOperations)},
              "each opcode has one row");

}  // namespace

const Operation* operation_of(uint32_t opcode) {
  return opcode < kByOpcode.size() ? kByOpcode[opcode] : nullptr;
}

}  // namespace kintsugi::mount
