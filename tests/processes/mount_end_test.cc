// How a mount begins and ends: it says no when nobody answers, gives the caller's terminal back, and never outlives its end.
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tests/processes/mounts.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

class MountEnds : public Mounts {
 protected:
  static std::string program() { return std::string(KINTSUGI_BINARIES) + "/kintsugi-mount"; }

  Outcome shell(const std::string& script) { return run_command({"/bin/bash", "-c", script}, environment()); }

  /// A mount with something that was written and is not durable, while no metaserver runs; the descriptor stays open.
  std::string mount_with_dirty_data(int& file) {
    const std::string mounted = start_and_mount();
    file = ::open((mounted + "/file").c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0644);
    EXPECT_EQ(::write(file, "first", 5), 5);
    EXPECT_EQ(::fsync(file), 0);
    kill9("metaserver");
    EXPECT_EQ(::write(file, "second", 6), 6);
    return mounted;
  }
  bool ended(const std::string& mounted, seconds limit) {
    return eventually([&] { return parent_of(mounted) == 0; }, limit);
  }
  std::string log_of(const std::string& mounted) { return read_file(mounted + ".log"); }
};

TEST_F(MountEnds, TheCallersOutputEndsWhenTheMountIsReady) {
  start({"--chunkservers", "5", "--policy", "rs-3-2-64k"});
  const std::string directory = path("m");
  std::filesystem::create_directory(directory);
  const Outcome captured =
      shell("x=$(timeout 30 " + program() + " " + directory + " 2>&1); echo \"returned $?\"");
  EXPECT_EQ(captured.out, "returned 0\n") << captured.err;
  EXPECT_EQ(::umount2(directory.c_str(), 0), 0);
  EXPECT_TRUE(ended(directory, seconds(30)));
  const Outcome piped =
      shell("timeout 30 " + program() + " " + directory + " | timeout 30 cat; echo ${PIPESTATUS[*]}");
  EXPECT_EQ(piped.out, "0 0\n");
  EXPECT_EQ(::umount2(directory.c_str(), 0), 0);
  EXPECT_TRUE(ended(directory, seconds(30)));
}

TEST_F(MountEnds, AMetaserverThatNobodyReachesIsAnErrorAndNothingIsMounted) {
  start({"--chunkservers", "5", "--policy", "rs-3-2-64k"});
  const std::string directory = path("m");
  std::filesystem::create_directory(directory);
  const auto began = steady_clock::now();
  const Outcome refused = run_command({program(), "127.0.0.1:1", directory}, environment());
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_LT(steady_clock::now() - began, seconds(15));
  EXPECT_NE(refused.err.find("127.0.0.1:1"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("nothing is mounted"), std::string::npos) << refused.err;
  struct statvfs space{};
  EXPECT_EQ(::statvfs(directory.c_str(), &space), 0);
  EXPECT_TRUE(ended(directory, seconds(5)));
}

TEST_F(MountEnds, ASecretThatTheMetaserverRefusesIsAnErrorAndNothingIsMounted) {
  start({"--chunkservers", "5", "--policy", "rs-3-2-64k"});
  const std::string directory = path("m"), secret = path("other_secret");
  std::filesystem::create_directory(directory);
  ASSERT_EQ(shell("umask 077; printf '%064d\\n' 7 > " + secret).exit_code, 0);
  const Outcome refused = run_command({program(), directory, "-o", "secret_file=" + secret}, environment());
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("secret"), std::string::npos) << refused.err;
  EXPECT_TRUE(ended(directory, seconds(5)));
}

TEST_F(MountEnds, SpaceAndTheRootAreToldFromMemoryWhileTheMetaserverIsAway) {
  const std::string mounted = start_and_mount();
  struct statvfs space{};
  struct stat root{};
  ASSERT_EQ(::statvfs(mounted.c_str(), &space), 0);
  ASSERT_EQ(::stat(mounted.c_str(), &root), 0);
  kill9("metaserver");
  ::sleep(3);  // longer than the kernel, and the mount, believe what they were told
  const auto began = steady_clock::now();
  struct statvfs later{};
  struct stat root_later{};
  EXPECT_EQ(::statvfs(mounted.c_str(), &later), 0) << std::strerror(errno);
  EXPECT_EQ(::stat(mounted.c_str(), &root_later), 0) << std::strerror(errno);
  EXPECT_LT(steady_clock::now() - began, seconds(10));
  EXPECT_EQ(later.f_blocks, space.f_blocks);
  EXPECT_EQ(root_later.st_ino, root.st_ino);
  EXPECT_EQ(root_later.st_mode, root.st_mode);
}

TEST_F(MountEnds, AfterUmountAllProcessesEndThoughTheMetaserverIsAwayAndSayWhatIsLost) {
  int file = -1;
  const std::string mounted = mount_with_dirty_data(file);
  std::thread([file] { ::close(file); }).detach();
  ::sleep(1);
  const auto began = steady_clock::now();
  const Outcome outcome = run_command({"/bin/umount", "-f", mounted}, environment());
  (void)outcome;  // busy while the close waits; the connection is aborted all the same
  EXPECT_TRUE(ended(mounted, seconds(60)));
  EXPECT_LT(steady_clock::now() - began, seconds(60));
  EXPECT_NE(log_of(mounted).find("LOST"), std::string::npos) << log_of(mounted);
}

TEST_F(MountEnds, PlainUmountReturnsWhileTheMetaserverIsAway) {
  const std::string mounted = start_and_mount();
  kill9("metaserver");
  ::sleep(2);
  const auto began = steady_clock::now();
  const Outcome outcome = run_command({"/bin/umount", mounted}, environment());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_LT(steady_clock::now() - began, seconds(20));
  EXPECT_TRUE(ended(mounted, seconds(60)));
}

TEST_F(MountEnds, TermEndsAllProcessesThoughTheMetaserverIsAwayAndAFileIsOpen) {
  int file = -1;
  const std::string mounted = mount_with_dirty_data(file);
  const auto began = steady_clock::now();
  ASSERT_EQ(::kill(parent_of(mounted), SIGTERM), 0);
  EXPECT_TRUE(ended(mounted, seconds(90)));
  EXPECT_LT(steady_clock::now() - began, seconds(90));
  EXPECT_NE(log_of(mounted).find("LOST"), std::string::npos) << log_of(mounted);
  ::close(file);
}

TEST_F(MountEnds, OptionsThatFstabHasAreTakenAndOthersAreRefusedWithTheReason) {
  start({"--chunkservers", "5", "--policy", "rs-3-2-64k"});
  const std::string directory = path("m");
  std::filesystem::create_directory(directory);
  for (const char* refused :
       {"sync", "dirsync", "uid=1000", "gid=1000", "umask=022", "max_read=4096", "nonsense"}) {
    const Outcome outcome = run_command({program(), directory, "-o", refused}, environment());
    EXPECT_EQ(outcome.exit_code, 2) << refused;
    EXPECT_NE(
        outcome.err.find(std::string("-o ") + std::string(refused).substr(0, std::string(refused).find('='))),
        std::string::npos)
        << outcome.err;
  }
  const std::string taken =
      "rw,noatime,nodiratime,strictatime,lazytime,silent,default_permissions,user,_netdev,nofail,x-systemd."
      "automount";
  const Outcome outcome = run_command({program(), directory, "-o", taken}, environment());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  struct statvfs space{};
  ASSERT_EQ(::statvfs(directory.c_str(), &space), 0);
  EXPECT_TRUE((space.f_flag & ST_NOEXEC) && (space.f_flag & ST_NOSUID) && (space.f_flag & ST_NODEV));
  EXPECT_EQ(::umount2(directory.c_str(), 0), 0);
  EXPECT_TRUE(ended(directory, seconds(30)));
  const Outcome back = run_command({program(), directory, "-o", "user,exec"}, environment());
  ASSERT_EQ(back.exit_code, 0) << back.err;
  ASSERT_EQ(::statvfs(directory.c_str(), &space), 0);
  EXPECT_FALSE(space.f_flag & ST_NOEXEC);
  EXPECT_EQ(::umount2(directory.c_str(), 0), 0);
  EXPECT_TRUE(ended(directory, seconds(30)));
}

}  // namespace
}  // namespace kintsugi::processes
