#include "common/daemon/disk_paths.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <thread>

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

std::vector<DiskPath> look_at(const std::vector<std::string>& paths, Duration patience,
                              DiskPath (*look)(const std::string&)) {
  std::vector<std::future<DiskPath>> looks;
  for (const std::string& path : paths) {
    std::packaged_task<DiskPath()> task([look, path] { return look(path); });
    looks.push_back(task.get_future());
    std::thread(std::move(task)).detach();
  }
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::vector<DiskPath> found;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (looks[i].wait_until(deadline) == std::future_status::ready) {
      found.push_back(looks[i].get());
    } else {
      found.push_back({.path = paths[i], .answers = false});
    }
  }
  return found;
}

Status check_disk_paths(const std::vector<DiskPath>& disks) {
  for (const DiskPath& disk : disks) {
    if (disk.exists || !disk.answers) continue;
    return {
        Code::kNotFound,
        fmt::format("there is no directory {0}, which shall keep chunks: mount its disk, or make it if it is "
                    "for a new disk (mkdir {0})",
                    disk.path)};
  }
  for (const DiskPath& disk : disks) {
    const bool others_are_mounted =
        disks.size() > 1 && std::ranges::all_of(disks, [&](const DiskPath& other) {
          return &other == &disk || other.mounted || !other.answers;
        });
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
