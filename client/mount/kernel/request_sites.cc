#include "client/mount/kernel/request_sites.h"

#include "client/mount/kernel/protocol.h"

namespace kintsugi::mount {
namespace {

constexpr sight::Site kLookup{"mount.lookup", {"bytes"}};
constexpr sight::Site kGetAttributes{"mount.get_attributes", {"bytes"}};
constexpr sight::Site kSetAttributes{"mount.set_attributes", {"bytes"}};
constexpr sight::Site kReadLink{"mount.read_link", {"bytes"}};
constexpr sight::Site kSymlink{"mount.symlink", {"bytes"}};
constexpr sight::Site kMakeNode{"mount.make_node", {"bytes"}};
constexpr sight::Site kMakeDirectory{"mount.make_directory", {"bytes"}};
constexpr sight::Site kUnlink{"mount.unlink", {"bytes"}};
constexpr sight::Site kRemoveDirectory{"mount.remove_directory", {"bytes"}};
constexpr sight::Site kRename{"mount.rename", {"bytes"}};
constexpr sight::Site kLink{"mount.link", {"bytes"}};
constexpr sight::Site kOpen{"mount.open", {"bytes"}};
constexpr sight::Site kOpenDirectory{"mount.open_directory", {"bytes"}};
constexpr sight::Site kCreate{"mount.create", {"bytes"}};
constexpr sight::Site kCreateNameless{"mount.create_nameless", {"bytes"}};
constexpr sight::Site kRead{"mount.read", {"bytes"}};
constexpr sight::Site kWrite{"mount.write", {"bytes"}};
constexpr sight::Site kSpace{"mount.space", {"bytes"}};
constexpr sight::Site kRelease{"mount.release", {"bytes"}};
constexpr sight::Site kReleaseDirectory{"mount.release_directory", {"bytes"}};
constexpr sight::Site kFsync{"mount.fsync", {"bytes"}};
constexpr sight::Site kFsyncDirectory{"mount.fsync_directory", {"bytes"}};
constexpr sight::Site kFlush{"mount.flush", {"bytes"}};
constexpr sight::Site kSetXattr{"mount.set_xattr", {"bytes"}};
constexpr sight::Site kGetXattr{"mount.get_xattr", {"bytes"}};
constexpr sight::Site kListXattrs{"mount.list_xattrs", {"bytes"}};
constexpr sight::Site kRemoveXattr{"mount.remove_xattr", {"bytes"}};
constexpr sight::Site kReadDirectory{"mount.read_directory", {"bytes"}};
constexpr sight::Site kGetLock{"mount.get_lock", {"bytes"}};
constexpr sight::Site kSetLock{"mount.set_lock", {"bytes"}};
constexpr sight::Site kWaitForLock{"mount.wait_for_lock", {"bytes"}};
constexpr sight::Site kAllocate{"mount.allocate", {"bytes"}};
constexpr sight::Site kSeek{"mount.seek", {"bytes"}};
constexpr sight::Site kCopyRange{"mount.copy_range", {"bytes"}};

}  // namespace

const sight::Site* site_of_request(uint32_t opcode) {
  switch (opcode) {
    case FUSE_LOOKUP: return &kLookup;
    case FUSE_GETATTR: return &kGetAttributes;
    case FUSE_SETATTR: return &kSetAttributes;
    case FUSE_READLINK: return &kReadLink;
    case FUSE_SYMLINK: return &kSymlink;
    case FUSE_MKNOD: return &kMakeNode;
    case FUSE_MKDIR: return &kMakeDirectory;
    case FUSE_UNLINK: return &kUnlink;
    case FUSE_RMDIR: return &kRemoveDirectory;
    case FUSE_RENAME: return &kRename;
    case FUSE_RENAME2: return &kRename;
    case FUSE_LINK: return &kLink;
    case FUSE_OPEN: return &kOpen;
    case FUSE_OPENDIR: return &kOpenDirectory;
    case FUSE_CREATE: return &kCreate;
    case FUSE_TMPFILE: return &kCreateNameless;
    case FUSE_READ: return &kRead;
    case FUSE_WRITE: return &kWrite;
    case FUSE_STATFS: return &kSpace;
    case FUSE_RELEASE: return &kRelease;
    case FUSE_RELEASEDIR: return &kReleaseDirectory;
    case FUSE_FSYNC: return &kFsync;
    case FUSE_FSYNCDIR: return &kFsyncDirectory;
    case FUSE_FLUSH: return &kFlush;
    case FUSE_SETXATTR: return &kSetXattr;
    case FUSE_GETXATTR: return &kGetXattr;
    case FUSE_LISTXATTR: return &kListXattrs;
    case FUSE_REMOVEXATTR: return &kRemoveXattr;
    case FUSE_READDIR: return &kReadDirectory;
    case FUSE_READDIRPLUS: return &kReadDirectory;
    case FUSE_GETLK: return &kGetLock;
    case FUSE_SETLK: return &kSetLock;
    case FUSE_SETLKW: return &kWaitForLock;
    case FUSE_FALLOCATE: return &kAllocate;
    case FUSE_LSEEK: return &kSeek;
    case FUSE_COPY_FILE_RANGE: return &kCopyRange;
    default: return nullptr;
  }
}

}  // namespace kintsugi::mount
