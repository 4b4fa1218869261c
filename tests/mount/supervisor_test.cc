// A mount that outlives the process which serves it: the real binary, the real kernel, real kills.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/mount/mounted.h"

namespace kintsugi::mount {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class Supervised : public ::testing::Test {
 protected:
  void SetUp() override { KINTSUGI_NEEDS_FUSE(); }
  void TearDown() override {
    if (mounted_device(place_.path())) (void)unmount(place_.path(), true);
    if (parent_ > 0) end_of_parent();
  }
  void start(const std::string& binary = KINTSUGI_BINARIES "/kintsugi-mount-memory") {
    parent_ = ::fork();
    if (parent_ == 0) {
      ::execl(binary.c_str(), "kintsugi-mount-memory", place_.path().c_str(), state_.path().c_str(),
              "--foreground", nullptr);
      ::_exit(127);
    }
    ASSERT_TRUE(eventually([&] { return mounted_device(place_.path()).has_value() && child() > 0; }));
    struct stat found{};
    ASSERT_EQ(::stat(path().c_str(), &found), 0);
  }
  std::string path(const std::string& name = "") const {
    return place_.path() + (name.empty() ? "" : "/" + name);
  }
  /// The process that serves; 0 when there is none now.
  pid_t child() const {
    std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", parent_));
    for (pid_t pid; children >> pid;) {
      std::ifstream name(fmt::format("/proc/{}/comm", pid));
      std::string text;
      std::getline(name, text);
      if (text != "kintsugi-notify") return pid;
    }
    return 0;
  }
  /// The parent's exit status, or -1 when it does not end.
  int end_of_parent() {
    int status = 0;
    const bool ended = eventually([&] { return ::waitpid(parent_, &status, WNOHANG) == parent_; });
    if (!ended) {
      ADD_FAILURE() << "the parent does not end";
      ::kill(parent_, SIGKILL);
      ::waitpid(parent_, &status, 0);
    }
    parent_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  ScratchDirectory place_;
  ScratchDirectory state_{"/dev/shm"};
  pid_t parent_ = 0;
};

/// Does what applications do, and knows what must come of it.
class Load {
 public:
  explicit Load(std::string directory, uint64_t seed) : directory_(std::move(directory)), random_(seed) {
    file_ = ::open((directory_ + "/blocks").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    check(file_ >= 0, "open");
  }
  ~Load() { ::close(file_); }

  void step() {
    switch (random_() % 4) {
      case 0:
      case 1: return write_or_read_block();
      case 2: return files();
      default: return directories();
    }
  }
  void list() {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(directory_))
      found.insert(entry.path().filename());
    found.erase("blocks");
    check(found == names_, "the listing");
  }
  uint64_t steps = 0;
  std::string failure;

 private:
  static constexpr size_t kBlock = 20'000, kBlocks = 50;

  void check(bool holds, const std::string& what) {
    if (!holds && failure.empty()) failure = what + ": " + std::strerror(errno);
  }
  std::string block(uint32_t version, size_t index) {
    std::string bytes(kBlock, 0);
    for (size_t i = 0; i < kBlock; ++i)
      bytes[i] = static_cast<char>(version == 0 ? 0 : version * 31 + index * 7 + i);
    return bytes;
  }
  void write_or_read_block() {
    const size_t index = random_() % kBlocks;
    const auto at = static_cast<off_t>(index * kBlock);
    if (random_() % 2 == 0) {
      const std::string bytes = block(++versions_[index], index);
      check(::pwrite(file_, bytes.data(), kBlock, at) == static_cast<ssize_t>(kBlock), "pwrite");
      if (random_() % 8 == 0) check(::fsync(file_) == 0, "fsync");
      return;
    }
    if (random_() % 4 == 0) ::posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED);
    std::string got(kBlock, 0);
    const ssize_t bytes = ::pread(file_, got.data(), kBlock, at);
    check(bytes >= 0, "pread");
    check(got == block(versions_[index], index), fmt::format("the bytes of block {}", index));
  }
  std::string fresh() { return std::to_string(next_++); }
  void files() {
    const std::string name = fresh(), other = fresh();
    const std::string path = directory_ + "/" + name, moved = directory_ + "/" + other;
    const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    check(file >= 0, "create");
    check(::write(file, name.data(), name.size()) == static_cast<ssize_t>(name.size()), "write");
    check(::setxattr(path.c_str(), "user.x", "1", 1, XATTR_CREATE) == 0, "setxattr");
    check(::link(path.c_str(), moved.c_str()) == 0, "link");
    check(::unlink(path.c_str()) == 0, "unlink");
    check(::rename(moved.c_str(), path.c_str()) == 0, "rename");
    check(::removexattr(path.c_str(), "user.x") == 0, "removexattr");
    struct stat found{};
    check(::fstat(file, &found) == 0 && found.st_nlink == 1, "fstat");
    check(::close(file) == 0, "close");
    names_.insert(name);
    if (names_.size() <= 20) return;
    const std::string gone = *names_.begin();
    const std::string doomed = directory_ + "/" + gone;
    check(fs::is_directory(doomed) ? ::rmdir(doomed.c_str()) == 0 : ::unlink(doomed.c_str()) == 0, "remove");
    names_.erase(gone);
  }
  void directories() {
    const std::string name = fresh();
    const std::string path = directory_ + "/" + name;
    check(::mkdir(path.c_str(), 0700) == 0, "mkdir");
    check(::symlink("target", (path + "/s").c_str()) == 0, "symlink");
    check(::unlink((path + "/s").c_str()) == 0, "unlink of a link");
    names_.insert(name);
  }

  std::string directory_;
  std::mt19937_64 random_;
  int file_ = -1;
  std::array<uint32_t, kBlocks> versions_{};
  std::set<std::string> names_;
  uint64_t next_ = 0;
};

TEST_F(Supervised, ApplicationsDoNotNoticeThatTheServingProcessIsKilledAgainAndAgain) {
  start();
  std::atomic<bool> done = false;
  std::vector<std::unique_ptr<Load>> loads;
  for (int i = 0; i < 3; ++i) {
    fs::create_directory(path(std::to_string(i)));
    loads.push_back(std::make_unique<Load>(path(std::to_string(i)), 100 + i));
  }
  std::vector<std::thread> threads;
  for (auto& load : loads)
    threads.emplace_back([&] {
      for (; !done && load->failure.empty(); ++load->steps) {
        load->step();
        if (load->steps % 50 == 0) load->list();
        // The rig holds a descriptor for every file that was ever made below a process that was killed.
        std::this_thread::sleep_for(2ms);
      }
    });
  for (int kills = 0; kills < 20; ++kills) {
    // Longer than a second: whoever dies faster than that is started again after a pause.
    std::this_thread::sleep_for(1020ms + std::chrono::milliseconds(kills * 7 % 13));
    const pid_t victim = child();
    ASSERT_GT(victim, 0);
    ::kill(victim, SIGKILL);
    ASSERT_TRUE(eventually([&] { return child() != victim && child() != 0; }));
  }
  done = true;
  for (auto& thread : threads)
    thread.join();
  for (const auto& load : loads) {
    EXPECT_EQ(load->failure, "");
    EXPECT_GT(load->steps, 100u);
    load->list();
  }
  loads.clear();
  ASSERT_TRUE(unmount(path(), false).ok());
  EXPECT_EQ(end_of_parent(), 0);
}

TEST_F(Supervised, ChildrenThatDieAtOnceAreStartedAfterAPauseAndForEver) {
  start();
  for (int i = 0; i < 5; ++i) {
    const pid_t victim = child();
    ASSERT_GT(victim, 0);
    ::kill(victim, SIGKILL);
    ASSERT_TRUE(eventually([&] { return child() != victim && child() != 0; }));
  }
  write_file(path("a"), "works");
  EXPECT_EQ(contents_of(path("a")), "works");
}

TEST_F(Supervised, TermUnmountsAndFilesThatAreOpenStayUsable) {
  start();
  const int file = ::open(path("a").c_str(), O_CREAT | O_RDWR, 0600);
  ::kill(parent_, SIGTERM);
  EXPECT_TRUE(eventually([&] { return !mounted_device(path()); }));
  EXPECT_EQ(::write(file, "still", 5), 5);
  EXPECT_EQ(::waitpid(parent_, nullptr, WNOHANG), 0);
  ::close(file);
  EXPECT_EQ(end_of_parent(), 0);
}

TEST_F(Supervised, HangupPutsTheNewBinaryInItsPlace) {
  const std::string binary = state_.path() + "/binary", old = state_.path() + "/old";
  fs::copy_file(KINTSUGI_BINARIES "/kintsugi-mount-memory", binary);
  start(binary);
  const int file = ::open(path("a").c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_EQ(::write(file, "before", 6), 6);
  fs::rename(binary, old);
  fs::copy_file(old, binary);
  const pid_t first = child();
  ::kill(parent_, SIGHUP);
  ASSERT_TRUE(eventually([&] { return child() != first && child() != 0; }));
  ASSERT_EQ(::write(file, "after", 5), 5);
  EXPECT_EQ(fs::read_symlink(fmt::format("/proc/{}/exe", child())), binary);
  // One that cannot run: the former one goes on.
  fs::remove(binary);
  std::ofstream(binary) << "not a program";
  const pid_t second = child();
  ::kill(parent_, SIGHUP);
  ASSERT_TRUE(eventually([&] { return child() != second && child() != 0; }));
  ASSERT_EQ(::write(file, "again", 5), 5);
  ::close(file);
  EXPECT_EQ(contents_of(path("a")), "beforeafteragain");
}

TEST_F(Supervised, AProgramThatNeverWorkedLeavesNothingMounted) {
  std::ofstream(state_.path() + "/broken") << "";
  parent_ = ::fork();
  if (parent_ == 0) {
    ::execl(KINTSUGI_BINARIES "/kintsugi-mount-memory", "kintsugi-mount-memory", place_.path().c_str(),
            state_.path().c_str(), "--foreground", nullptr);
    ::_exit(127);
  }
  EXPECT_EQ(end_of_parent(), 3);
  EXPECT_TRUE(eventually([&] { return !mounted_device(path()); }));
}

TEST_F(Supervised, InTheBackgroundTheCallerReturnsWhenTheMountAnswers) {
  const std::string command =
      fmt::format(KINTSUGI_BINARIES "/kintsugi-mount-memory {} {}", place_.path(), state_.path());
  ASSERT_EQ(::system(command.c_str()), 0);
  write_file(path("a"), "works");
  ASSERT_TRUE(unmount(path(), false).ok());
  EXPECT_EQ(
      WEXITSTATUS(::system(fmt::format(KINTSUGI_BINARIES "/kintsugi-mount-memory {}/none {} 2>/dev/null",
                                       place_.path(), state_.path())
                               .c_str())),
      1);
}

TEST_F(Supervised, AFormerMountOfTheSameDirectoryDoesNotDisturbTheNextOne) {
  for (int i = 0; i < 20; ++i) {
    const std::string command =
        fmt::format(KINTSUGI_BINARIES "/kintsugi-mount-memory {} {}", place_.path(), state_.path());
    ASSERT_EQ(::system(command.c_str()), 0);
    write_file(path(std::to_string(i)), "works");
    ASSERT_TRUE(unmount(path(), false).ok()) << i;
  }
}

TEST_F(Supervised, AnAbortedMountIsClearedAway) {
  start();
  const std::string device = *mounted_device(path());
  const ScratchDirectory control;
  ASSERT_EQ(::mount("fusectl", control.path().c_str(), "fusectl", 0, nullptr), 0);
  std::ofstream(fmt::format("{}/{}/abort", control.path(), device.substr(device.find(':') + 1))) << "1";
  ASSERT_EQ(::umount(control.path().c_str()), 0);
  (void)end_of_parent();
  EXPECT_TRUE(eventually([&] { return !mounted_device(path()); }));
}

}  // namespace
}  // namespace kintsugi::mount
