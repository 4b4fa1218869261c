/// Whether the directories that a daemon is told to keep data in are what its operator means.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/runtime/clock.h"

namespace kintsugi::daemon {

/// One directory as it is now.
struct DiskPath {
  std::string path;
  bool answers = true;  ///< false: nothing else is known of it, because it hangs
  bool exists = false;
  bool empty = false;
  bool mounted = false;  ///< a file system of its own begins there
};

DiskPath look_at(const std::string& path);
/// Looks at all of them side by side, at most as long as `patience`. The thread that looks at a directory which hangs is left
/// behind: it ends when the disk answers, or with the process.
std::vector<DiskPath> look_at(const std::vector<std::string>& paths, Duration patience,
                              DiskPath (*look)(const std::string&) = look_at);

/// kNotFound, in one line that says what to do: a directory is not there, or it looks like one whose disk is not mounted (it is
/// empty and of the file system around it, while all the others are mounted). Either would become a new, empty disk, on the wrong
/// file system. A disk that does not answer is no reason.
Status check_disk_paths(const std::vector<DiskPath>& disks);

}  // namespace kintsugi::daemon
