// Each process of a mount is killed: the mount goes on, or its users get an error and it can be unmounted. Nobody hangs.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/processes/mounts.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;

class MountDeath : public Mounts {
 protected:
  /// The process that tells the kernel what is out of date; 0: there is none.
  pid_t notifier_of(const std::string& mounted) const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (!std::all_of(name.begin(), name.end(), ::isdigit)) continue;
      if (read_file(entry.path() / "comm") != "kintsugi-notify\n") continue;
      if (read_file(entry.path() / "cmdline").find(mounted) != std::string::npos) return std::stoi(name);
    }
    return 0;
  }
  void kill_now(pid_t process) {
    ASSERT_GT(process, 0);
    // One may have ended by itself after another was killed.
    ASSERT_TRUE(::kill(process, SIGKILL) == 0 || errno == ESRCH) << std::strerror(errno);
  }
  /// What `action` returns, or fails the test when it takes longer than `limit`.
  static int within(seconds limit, std::function<int()> action) {
    std::packaged_task<int()> task(std::move(action));
    std::future<int> result = task.get_future();
    std::thread(std::move(task)).detach();
    if (result.wait_for(limit) == std::future_status::ready) return result.get();
    ADD_FAILURE() << "it hangs";
    return -1;
  }
  /// errno of a look at a file, 0: it is there.
  static int look(const std::string& file) {
    struct stat found{};
    return ::stat(file.c_str(), &found) == 0 ? 0 : errno;
  }
  static int append(int file, const std::string& text) {
    return ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(file) == 0
               ? 0
               : errno;
  }
  void expect_unmounts(const std::string& mounted) {
    EXPECT_EQ(within(seconds(30), [&] { return ::umount2(mounted.c_str(), 0) == 0 ? 0 : errno; }), 0);
    EXPECT_TRUE(eventually([&] { return parent_of(mounted) == 0; }, seconds(30))) << "processes are left";
  }
  /// Users get an error at once, and the directory can be mounted again.
  void expect_dead(const std::string& mounted, int file) {
    EXPECT_TRUE(eventually([&] { return within(seconds(10), [&] { return look(mounted); }) == ENOTCONN; },
                           seconds(10)))
        << std::strerror(look(mounted));
    EXPECT_NE(within(seconds(10), [&] { return append(file, "x"); }), 0);
    ::close(file);
    expect_unmounts(mounted);
    EXPECT_EQ(look(mounted + "/file"), ENOENT) << "it is an empty directory again";
  }
  int open_file(const std::string& mounted) {
    const int file = ::open((mounted + "/file").c_str(), O_RDWR | O_CLOEXEC | O_CREAT | O_APPEND, 0644);
    EXPECT_GE(file, 0) << std::strerror(errno);
    EXPECT_EQ(append(file, "first"), 0);
    return file;
  }
  std::string stored() const { return kintsugi({"cat", "/file"}).out; }
};

TEST_F(MountDeath, WithoutItsParentAMountGoesOnAndIsUnmountedLikeAnyOther) {
  const std::string mounted = start_and_mount();
  const int file = open_file(mounted);
  kill_now(parent_of(mounted));
  ASSERT_TRUE(eventually(
      [&] { return read_file(mounted + ".log").find("the parent process is gone") != std::string::npos; },
      seconds(10)))
      << "the log says what is lost";
  EXPECT_EQ(within(seconds(20), [&] { return append(file, " second"); }), 0);
  EXPECT_EQ(within(seconds(20), [&] { return look(mounted + "/file"); }), 0);
  ::close(file);
  expect_unmounts(mounted);
  EXPECT_EQ(stored(), "first second");
}

TEST_F(MountDeath, WithoutItsParentAndTheProcessThatServesItAMountIsAnErrorForItsUsers) {
  const std::string mounted = start_and_mount();
  const int file = open_file(mounted);
  const pid_t parent = parent_of(mounted), child = child_of(parent);
  kill_now(parent);
  kill_now(child);
  expect_dead(mounted, file);
  EXPECT_EQ(stored(), "first") << "what was synced is there";
}

TEST_F(MountDeath, WhoWaitsInAMountWhoseProcessesAreKilledGetsAnError) {
  const std::string mounted = start_and_mount();
  const int file = open_file(mounted);
  send("metaserver", SIGSTOP);
  std::packaged_task<int()> task([name = mounted + "/somewhere"] { return look(name); });
  std::future<int> waits = task.get_future();
  std::thread(std::move(task)).detach();
  EXPECT_EQ(waits.wait_for(seconds(1)), std::future_status::timeout) << "nobody can answer it";
  const pid_t parent = parent_of(mounted), child = child_of(parent);
  kill_now(parent);
  kill_now(child);
  const bool returned = waits.wait_for(seconds(20)) == std::future_status::ready;
  EXPECT_TRUE(returned) << "it hangs";
  if (returned) EXPECT_NE(waits.get(), 0);
  send("metaserver", SIGCONT);
  expect_dead(mounted, file);
}

TEST_F(MountDeath, AllProcessesAtOnceLeaveAMountThatIsAnErrorForItsUsers) {
  const std::string mounted = start_and_mount();
  const int file = open_file(mounted);
  const pid_t parent = parent_of(mounted), child = child_of(parent), notifier = notifier_of(mounted);
  kill_now(parent);
  kill_now(notifier);
  kill_now(child);
  expect_dead(mounted, file);
  EXPECT_EQ(stored(), "first") << "what was synced is there";
}

TEST_F(MountDeath, WithoutTheProcessThatTellsTheKernelNothingOutOfDateIsBelieved) {
  start({"--chunkservers", "5", "--policy", "rs-3-2-64k", "--repair-delay", "0"});
  // The kernel believes for so long that a test that is told nothing never sees the change.
  const std::string mounted = mount({"--cached-for", "60s"}), other = mount();
  const int file = open_file(mounted);
  for (int round = 0; round < 3; ++round) {
    const pid_t notifier = notifier_of(mounted);
    kill_now(notifier);
    ASSERT_TRUE(
        eventually([&] { return notifier_of(mounted) > 0 && notifier_of(mounted) != notifier; }, seconds(20)))
        << "nobody tells the kernel any more";
    EXPECT_EQ(within(seconds(20), [&] { return append(file, "."); }), 0) << "an open file goes on";
    const std::string name = "/new" + std::to_string(round);
    ASSERT_EQ(within(seconds(20), [&] { return look(mounted + name); }), ENOENT);
    std::ofstream(other + name) << "made elsewhere";
    EXPECT_TRUE(eventually([&] { return look(mounted + name) == 0; }, seconds(10)))
        << "the kernel still believes that it does not exist";
  }
  ::close(file);
  expect_unmounts(mounted);
  EXPECT_EQ(stored(), "first...");
}

}  // namespace
}  // namespace kintsugi::processes
