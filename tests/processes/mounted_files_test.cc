// What an application that is exact about POSIX sees of files on a mount: appends through a kill, locks, modes and links of what
// was removed, pages of what others changed.
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/processes/mounts.h"

namespace kintsugi::processes {
namespace {

using std::chrono::milliseconds;

constexpr uid_t kOwner = 1001;

/// What the function says in a process of its own.
template <class F>
int in_a_process(F function) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(function());
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(Mounts, EachAppendIsThereOnceThoughTheProcessOfTheMountIsKilled) {
  const std::string mounted = start_and_mount();
  const pid_t parent = parent_of(mounted);
  const std::string name = mounted + "/log";
  const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_DSYNC | O_CLOEXEC, 0644);
  ASSERT_GE(file, 0);
  std::atomic<bool> ends = false;
  std::atomic<int> kills = 0;
  std::thread killer([&] {
    while (!ends && kills < 6) {
      std::this_thread::sleep_for(milliseconds(250));
      const pid_t child = child_of(parent);
      if (child > 0 && ::kill(child, SIGKILL) == 0) ++kills;
    }
  });
  std::string expected;
  for (int i = 0; kills < 6 || i < 100; ++i) {
    std::string line = std::to_string(i) + std::string(static_cast<size_t>(i % 700), '.') + "\n";
    ASSERT_EQ(::write(file, line.data(), line.size()), static_cast<ssize_t>(line.size()))
        << std::strerror(errno);
    expected += line;
  }
  ends = true;
  killer.join();
  ::close(file);
  EXPECT_TRUE(read_file(name) == expected) << read_file(name).size() << " bytes, not " << expected.size();
}

TEST_F(Mounts, AReadLockOfADescriptorThatOnlyReadsEndsWithTheCloseOfAnyOther) {
  const std::string name = start_and_mount() + "/lock";
  const int made = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(::write(made, "x", 1), 1);
  ::close(made);
  const auto is_free = [&] {
    return in_a_process([&] {
      struct flock wanted{};
      wanted.l_type = F_WRLCK;
      wanted.l_len = 10;
      const int other = ::open(name.c_str(), O_RDWR);
      return ::fcntl(other, F_GETLK, &wanted) == 0 && wanted.l_type == F_UNLCK ? 1 : 0;
    });
  };
  const int file = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  for (const bool duplicate : {true, false}) {
    struct flock wanted{};
    wanted.l_type = F_RDLCK;
    wanted.l_len = 10;
    ASSERT_EQ(::fcntl(file, F_SETLK, &wanted), 0);
    EXPECT_EQ(is_free(), 0);
    ::close(duplicate ? ::dup(file) : ::open(name.c_str(), O_RDONLY));
    EXPECT_EQ(is_free(), 1) << (duplicate ? "a duplicate" : "another one") << " was closed";
  }
  ::close(file);
}

TEST_F(Mounts, ADirectWriteOfAUserTakesSetIdBitsAwayAtOnce) {
  const std::string mounted = start_and_mount(), name = mounted + "/program";
  const int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(::ftruncate(file, 8192), 0);
  ASSERT_EQ(::fchown(file, kOwner, kOwner), 0);
  ASSERT_EQ(::fchmod(file, 06755), 0);
  ::close(file);
  ASSERT_EQ(in_a_process([&] {
              // The way there is root's alone.
              const int own = ::open(name.c_str(), O_RDWR | O_DIRECT);
              if (::setgid(kOwner) != 0 || ::setuid(kOwner) != 0) return 2;
              void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return ::pwrite(own, page, 4096, 0) == 4096 ? 0 : 1;
            }),
            0);
  struct statx seen{};
  ASSERT_EQ(::statx(AT_FDCWD, name.c_str(), 0, STATX_MODE, &seen), 0);
  EXPECT_EQ(seen.stx_mode & 07777, 0755);
}

TEST_F(Mounts, ADirectoryThatWasRemovedOrReplacedWhileOpenHasNoLinks) {
  const std::string mounted = start_and_mount();
  for (const bool replaced : {false, true}) {
    const std::string one = mounted + "/one", other = mounted + "/other";
    std::filesystem::create_directory(one);
    if (replaced) std::filesystem::create_directory(other);
    const int open = ::open(one.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_GE(open, 0);
    ASSERT_EQ(replaced ? ::rename(other.c_str(), one.c_str()) : ::rmdir(one.c_str()), 0)
        << std::strerror(errno);
    for (int look = 0; look < 3; ++look) {
      struct stat about{};
      ASSERT_EQ(::fstat(open, &about), 0) << std::strerror(errno) << (replaced ? ", replaced" : ", removed");
      EXPECT_EQ(about.st_nlink, 0u) << (replaced ? "replaced" : "removed");
      std::this_thread::sleep_for(milliseconds(1200));
    }
    ::close(open);
    if (replaced) ASSERT_EQ(::rmdir(one.c_str()), 0);
  }
}

TEST_F(Mounts, PagesOfAFileThatAnotherOneChangedAndGaveTheOldTimeAreReadAnew) {
  const std::string one = start_and_mount(), other = mount();
  const auto write = [](const std::string& name, const std::string& bytes, const timespec& modified) {
    const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ASSERT_EQ(::write(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    const timespec times[2] = {modified, modified};
    ASSERT_EQ(::futimens(file, times), 0);
    ASSERT_EQ(::close(file), 0);
  };
  const timespec then{1'500'000'000, 0};
  write(one + "/copied", std::string(10'000, 'a'), then);
  EXPECT_EQ(read_file(one + "/copied"), std::string(10'000, 'a'));
  write(other + "/copied", std::string(10'000, 'b'), then);
  std::this_thread::sleep_for(milliseconds(1500));
  EXPECT_EQ(read_file(one + "/copied"), std::string(10'000, 'b'));
}

TEST_F(Mounts, WhatWasRemovedBeforeItWasWrittenOutIsNoLoss) {
  const std::string mounted = start_and_mount();
  for (int i = 0; i < 50; ++i) {
    const std::string name = mounted + "/" + std::to_string(i);
    const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ASSERT_EQ(::write(file, "bytes", 5), 5);
    if (i % 4 == 0) {
      // The metaserver knows it, and forgets it when it is closed.
      ASSERT_EQ(::fsync(file), 0);
      ASSERT_EQ(::write(file, "more", 4), 4);
    }
    if (i % 2 == 0) ASSERT_EQ(::unlink(name.c_str()), 0);
    ASSERT_EQ(::close(file), 0);
    if (i % 2 != 0) ASSERT_EQ(::unlink(name.c_str()), 0);
  }
  unmount(mounted);
  const std::string log = read_file(mounted + ".log");
  for (const char* bad : {"writing out failed", "could not be written", "are lost", "given up"})
    EXPECT_EQ(log.find(bad), std::string::npos) << log;
}

}  // namespace
}  // namespace kintsugi::processes
