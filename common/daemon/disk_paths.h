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
  bool answers = true;  ///< false: the disk hangs, and nothing else is known of it
  bool exists = false;
  bool empty = false;
  bool mounted = false;  ///< a file system of its own begins there
  bool used = false;     ///< the path contains the marker of a daemon that kept data there before
};

/// `marker` is the name of a file that a daemon leaves in each directory that it keeps data in.
DiskPath look_at(const std::string& path, const std::string& marker);
/// Looks at all of them side by side, at most as long as `patience`. The thread that looks at a directory which hangs
/// is left behind: it ends when the disk answers, or with the process.
std::vector<DiskPath> look_at(const std::vector<std::string>& paths, const std::string& marker,
                              Duration patience,
                              DiskPath (*look)(const std::string&, const std::string&) = look_at);

/// A directory that must not be used now, and a line that says why and what to do.
struct MissingDisk {
  std::string path;
  std::string why;
};

/// Finds the directories that are not there, and those that look as if their disk were not mounted (empty and of the
/// file system around them, while all the others are mounted). Either would become a new, empty disk, on the wrong
/// file system. The daemon may continue without them as long as another directory was used before: then they are disks
/// that failed. kNotFound, in one line that says what to do: none was, so that nobody can tell what should be there. A
/// disk that does not answer is not missing.
Result<std::vector<MissingDisk>> find_missing_disks(const std::vector<DiskPath>& disks);

}  // namespace kintsugi::daemon
