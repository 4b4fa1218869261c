#include "common/daemon/disk_paths.h"

#include <algorithm>
#include <filesystem>

#include <sys/stat.h>

namespace kintsugi::daemon {

DiskPath look_at(const std::string& path) {
  DiskPath found{.path = path};
  struct stat here{}, around{};
  found.exists = ::stat(path.c_str(), &here) == 0 && S_ISDIR(here.st_mode);
  std::error_code unreadable;
  found.empty = found.exists && std::filesystem::is_empty(path, unreadable) && !unreadable;
  found.mounted =
      found.exists && ::stat((path + "/..").c_str(), &around) == 0 && here.st_dev != around.st_dev;
  return found;
}

Status check_disk_paths(const std::vector<DiskPath>& disks) {
  for (const DiskPath& disk : disks) {
    if (disk.exists) continue;
    return {
        Code::kNotFound,
        fmt::format("there is no directory {0}, which shall keep chunks: mount its disk, or make it if it is "
                    "for a new disk (mkdir {0})",
                    disk.path)};
  }
  for (const DiskPath& disk : disks) {
    const bool others_are_mounted =
        disks.size() > 1 &&
        std::ranges::all_of(disks, [&](const DiskPath& other) { return &other == &disk || other.mounted; });
    if (!disk.empty || disk.mounted || !others_are_mounted) continue;
    return {
        Code::kNotFound,
        fmt::format("{} is empty and no disk is mounted there, as on all the others: mount it, or take the "
                    "directory out of `disks`",
                    disk.path)};
  }
  return {};
}

}  // namespace kintsugi::daemon
