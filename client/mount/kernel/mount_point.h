/// Attaches a /dev/fuse descriptor to a directory, and detaches it: mount(2) for root, the set-user-ID helper
/// fusermount3 for everybody else. Plain blocking calls, for the first and last lines of a program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/status.h"

namespace kintsugi::mount {

struct MountOptions {
  std::string source = "kintsugi";  ///< name that `mount` and `df` show
  /// Users other than the mounting one have access; for users other than root this needs user_allow_other in
  /// /etc/fuse.conf.
  bool allow_other = true;
  bool default_permissions = true;  ///< the kernel checks modes and access lists
  bool read_only = false;
  bool no_suid = true;
  bool no_dev = true;
  bool no_exec = false;
  uint32_t max_read_bytes = 1 << 20;
  /// How far the kernel reads ahead; only root can set it; 0: the kernel's default of 128 KiB.
  uint32_t read_ahead_bytes = 0;
};

/// Mounts at `directory` (which need not be empty) and returns the descriptor: the caller serves it, and owns it.
/// Nothing in the directory answers before a Connection does. kNotFound: no such directory, no /dev/fuse, no
/// fusermount3; kNotDirectory; kNotPermitted; kStale: something died there and is still mounted. The messages say what
/// to do.
Result<int> mount_at(const std::string& directory, const MountOptions& options);

/// `lazy`: at once, even while files are open; the file system ends when the last of them is closed. kWouldBlock: busy.
Status unmount(const std::string& directory, bool lazy);

/// The device number ("0:57") of the FUSE file system that is mounted on top at `directory` now. Asks nobody who could
/// hang.
std::optional<std::string> mounted_device(const std::string& directory);

}  // namespace kintsugi::mount
