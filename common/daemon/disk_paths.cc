#include "common/daemon/disk_paths.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <thread>

#include <sys/stat.h>

namespace kintsugi::daemon {
namespace {

bool others_are_mounted(const std::vector<DiskPath>& disks, const DiskPath& disk) {
  return disks.size() > 1 && std::ranges::all_of(disks, [&](const DiskPath& other) {
           return &other == &disk || other.mounted || !other.answers;
         });
}

}  // namespace

DiskPath look_at(const std::string& path, const std::string& marker) {
  DiskPath found{.path = path};
  struct stat here{}, around{};
  found.exists = ::stat(path.c_str(), &here) == 0 && S_ISDIR(here.st_mode);
  std::error_code unreadable;
  found.empty = found.exists && std::filesystem::is_empty(path, unreadable) && !unreadable;
  found.mounted =
      found.exists && ::stat((path + "/..").c_str(), &around) == 0 && here.st_dev != around.st_dev;
  found.used = found.exists && std::filesystem::exists(path + "/" + marker, unreadable);
  return found;
}

std::vector<DiskPath> look_at(const std::vector<std::string>& paths, const std::string& marker,
                              Duration patience, DiskPath (*look)(const std::string&, const std::string&)) {
  std::vector<std::future<DiskPath>> looks;
  for (const std::string& path : paths) {
    std::packaged_task<DiskPath()> task([look, path, marker] { return look(path, marker); });
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

Result<std::vector<MissingDisk>> find_missing_disks(const std::vector<DiskPath>& disks) {
  const bool known = std::ranges::any_of(disks, &DiskPath::used);
  std::vector<MissingDisk> missing;
  for (const DiskPath& disk : disks) {
    const bool unmounted = disk.exists && disk.empty && !disk.mounted && others_are_mounted(disks, disk);
    if (!disk.answers || (disk.exists && !unmounted)) continue;
    if (!known && unmounted) {
      return Status{Code::kNotFound,
                    fmt::format("{} is empty and no disk is mounted there, as on all the others: mount it, "
                                "or take the directory out of `disks`",
                                disk.path)};
    }
    if (!known) {
      return Status{Code::kNotFound,
                    fmt::format("there is no directory {0}, which is to keep chunks: mount its disk, or make "
                                "it if it is for a new disk (mkdir {0})",
                                disk.path)};
    }
    missing.push_back(
        {disk.path, fmt::format("{}: the other disks serve, and what was on it is repaired elsewhere; mount "
                                "it and restart this daemon, or take it out of `disks`",
                                unmounted ? "it is empty and no disk is mounted there, as on all the others"
                                          : "there is no such directory")});
  }
  return missing;
}

}  // namespace kintsugi::daemon
