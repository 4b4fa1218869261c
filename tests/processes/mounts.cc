#include "tests/processes/mounts.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace kintsugi::processes {

void Mounts::SetUp() {
  const int device = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (device < 0 || ::geteuid() != 0)
    GTEST_SKIP() << "nothing can be mounted here: /dev/fuse and root are needed";
  ::close(device);
  ProcessCluster::SetUp();
}

void Mounts::TearDown() {
  // One that was skipped at its beginning has nothing to end.
  if (IsSkipped() && mounted_.empty()) return;
  for (const std::string& directory : mounted_)
    ::umount2(directory.c_str(), MNT_DETACH);
  for (const std::string& directory : mounted_)
    EXPECT_TRUE(eventually([&] { return parent_of(directory) == 0; }, std::chrono::seconds(30)))
        << "the mount's processes still run";
  if (HasFailure())
    for (const std::string& directory : mounted_)
      std::fprintf(stderr, "==> %s.log <==\n%s\n", directory.c_str(), read_file(directory + ".log").c_str());
  ProcessCluster::TearDown();
}

std::string Mounts::start_and_mount() {
  start({"--chunkservers", "5", "--policy", "rs-3-2-64k", "--repair-delay", "0"});
  return mount();
}

std::string Mounts::mount(const std::vector<std::string>& options) {
  return mount_by(std::string(KINTSUGI_BINARIES) + "/kintsugi-mount", options);
}

std::string Mounts::mount_by(const std::string& program, const std::vector<std::string>& options) {
  const std::string directory = path("mnt" + std::to_string(mounted_.size()));
  std::filesystem::create_directory(directory);
  std::vector<std::string> command{program, directory, "--log-file", directory + ".log"};
  command.insert(command.end(), options.begin(), options.end());
  const Outcome outcome = run_command(command, environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  mounted_.push_back(directory);
  struct statfs about{};
  EXPECT_EQ(::statfs(directory.c_str(), &about), 0);
  EXPECT_EQ(about.f_type, 0x65735546) << "no FUSE file system is there";
  return directory;
}

void Mounts::unmount(const std::string& directory) {
  EXPECT_EQ(::umount2(directory.c_str(), 0), 0) << std::strerror(errno);
  EXPECT_TRUE(eventually([&] { return parent_of(directory) == 0; }, std::chrono::seconds(30)));
}

pid_t Mounts::parent_of(const std::string& directory) const {
  pid_t first = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), ::isdigit)) continue;
    const std::string line = read_file(entry.path() / "cmdline");
    if (line.find("kintsugi-mount") == line.npos || line.find(directory) == line.npos) continue;
    const pid_t pid = std::stoi(name);
    if (first == 0 || pid < first) first = pid;
  }
  return first;
}

pid_t Mounts::child_of(pid_t parent) {
  // One child serves the mount, the other one writes notifications, and has little memory.
  std::ifstream children("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children");
  pid_t found = 0, child = 0;
  uint64_t most = 0;
  while (children >> child) {
    std::ifstream status("/proc/" + std::to_string(child) + "/status");
    std::string line;
    uint64_t resident = 0;
    while (std::getline(status, line))
      if (line.starts_with("RssAnon:")) std::istringstream(line.substr(8)) >> resident;
    if (resident <= most) continue;
    most = resident;
    found = child;
  }
  return found;
}

}  // namespace kintsugi::processes
