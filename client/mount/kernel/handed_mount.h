/// A mount that one process makes for another: the one that serves it needs no rights then, and may stand in a mount
/// namespace of its own. A unit of systemd runs both, the maker with all rights and for a moment.
#pragma once

#include <chrono>
#include <string>

#include <sys/types.h>

#include "client/mount/kernel/mount_point.h"
#include "common/base/status.h"

namespace kintsugi::mount {

/// Returns the device of the mount that hand_mount() makes for this process; the caller serves it, and owns it. Says to
/// systemd that it is ready as soon as hand_mount() finds it. Takes it from root and from the own user only.
/// kDeadlineExceeded: nobody came within `limit`.
Result<int> await_mount(std::chrono::milliseconds limit);

/// Mounts at `directory` for the process `server`, which waits in await_mount(), and returns once the directory answers.
/// kNotFound: that process does not wait; kPermissionDenied: it is another user's, and this one is not root;
/// kUnavailable: it has it, and does not answer within `limit`, so it is detached again; else as mount_at().
Status hand_mount(pid_t server, const std::string& directory, const MountOptions& options,
                  std::chrono::milliseconds limit);

}  // namespace kintsugi::mount
