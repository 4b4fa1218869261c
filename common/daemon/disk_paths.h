/// Whether the directories that a daemon is told to keep data in are what its operator means.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace kintsugi::daemon {

/// One directory as it is now.
struct DiskPath {
  std::string path;
  bool exists = false;
  bool empty = false;
  bool mounted = false;  ///< a file system of its own begins there
};

DiskPath look_at(const std::string& path);

/// kNotFound, in one line that says what to do: a directory is not there, or it looks like one whose disk is not mounted (it is
/// empty and of the file system around it, while all the others are mounted). Either would become a new, empty disk, on the wrong
/// file system.
Status check_disk_paths(const std::vector<DiskPath>& disks);

}  // namespace kintsugi::daemon
