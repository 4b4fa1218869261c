// What mounts of one cluster see of each other, on real processes: files, names, locks.
#include <atomic>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/processes/file_calls.h"
#include "tests/processes/mounts.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;

TEST_F(Mounts, OneSeesWhatAnotherOneHasClosed) {
  const std::string one = start_and_mount(), other = mount();
  std::mt19937_64 dice(3);
  for (int round = 0; round < 20; ++round) {
    const std::string bytes = random_bytes(dice, 1 + dice() % 300'000);
    const std::string& writes = round % 2 == 0 ? one : other;
    const std::string& reads = round % 2 == 0 ? other : one;
    const int file = ::open((writes + "/shared").c_str(),
                            O_RDWR | O_CLOEXEC | O_CREAT | (round % 3 == 0 ? O_TRUNC : 0), 0644);
    ASSERT_GE(file, 0);
    ASSERT_TRUE(write_all(file, bytes, 0));
    ASSERT_EQ(::ftruncate(file, static_cast<off_t>(bytes.size())), 0);
    ASSERT_EQ(::close(file), 0);
    EXPECT_TRUE(contents(reads + "/shared") == bytes) << "round " << round;
  }
  // What the command line stores is seen as well, and the other way round.
  const std::string file = make_file("file", 1'000'000, 5);
  ASSERT_EQ(kintsugi({"put", file, "/stored"}).exit_code, 0);
  EXPECT_TRUE(contents(one + "/stored") == read_file(file));
  ASSERT_EQ(kintsugi({"get", "/shared", path("back")}).exit_code, 0);
  EXPECT_TRUE(read_file(path("back")) == contents(one + "/shared"));
}

TEST_F(Mounts, NamesThatOneMakesAreSeenByEverybodyAtOnce) {
  const std::string one = start_and_mount(), other = mount();
  const auto names = [](const std::string& directory) {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      found.insert(entry.path().filename());
    return found;
  };
  // Who makes the directory makes files in it by itself, until somebody else looks.
  for (const std::string& makes : {one, other}) {
    const std::string& looks = makes == one ? other : one;
    const std::string directory = makes == one ? "/a" : "/b";
    std::set<std::string> made;
    std::filesystem::create_directory(makes + directory);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    for (int i = 0; i < 200; ++i) {
      const std::string name = "f" + std::to_string(i);
      const int file =
          ::open((makes + directory + "/" + name).c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0640);
      ASSERT_GE(file, 0) << std::strerror(errno);
      EXPECT_TRUE(write_all(file, name, 0));
      EXPECT_EQ(::fchmod(file, 0604), 0);
      EXPECT_EQ(::close(file), 0);
      made.insert(name);
    }
    struct stat seen;
    ASSERT_EQ(::stat((looks + directory + "/f199").c_str(), &seen), 0);
    EXPECT_EQ(seen.st_mode & 07777, 0604u);
    EXPECT_EQ(seen.st_size, 4);
    EXPECT_EQ(contents(looks + directory + "/f17"), "f17");
    EXPECT_EQ(names(looks + directory), made);
    EXPECT_EQ(code(::open((looks + directory + "/f0").c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0644)), EEXIST);
  }
  // A path of the command line leads through what was made a moment ago.
  std::filesystem::create_directories(one + "/c/d");
  ASSERT_EQ(::symlink("nowhere", (one + "/c/d/e").c_str()), 0);
  EXPECT_EQ(kintsugi({"stat", "/c/d/e"}).exit_code, 0);
  EXPECT_EQ(kintsugi({"stat", "/c/d/f"}).exit_code, 1);
}

TEST_F(Mounts, WhatOneChangesIsSeenOnTheOtherAtOnceWhateverThatHadLookedUp) {
  const std::string one = start_and_mount(), other = mount();
  const std::string mounts[] = {one, other};
  ASSERT_EQ(::mkdir((one + "/d").c_str(), 0755), 0);
  // Directories that both work in, and ones that this pair of names is the first in: those whose kernel believes names.
  for (int round = 0; round < 60; ++round) {
    const std::string& a = mounts[round % 2];
    const std::string& b = mounts[1 - round % 2];
    const std::string in = round % 3 == 0 ? "/d" : "/d" + std::to_string(round);
    SCOPED_TRACE(in + " in round " + std::to_string(round));
    struct stat seen{};
    if (round % 3 != 0) ASSERT_EQ(::mkdir((a + in).c_str(), 0755), 0);
    const std::string f = in + "/f" + std::to_string(round), g = in + "/g" + std::to_string(round);
    EXPECT_EQ(code(::stat((b + f).c_str(), &seen)), ENOENT);
    const int file = ::open((a + f).c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0644);
    ASSERT_GE(file, 0);
    ASSERT_EQ(code(::stat((b + f).c_str(), &seen)), 0) << "it was made";
    EXPECT_EQ(seen.st_size, 0);
    ASSERT_TRUE(write_all(file, "appended", 0));
    ASSERT_EQ(::fsync(file), 0);
    ASSERT_EQ(::close(file), 0);
    ASSERT_EQ(code(::stat((b + f).c_str(), &seen)), 0);
    EXPECT_EQ(seen.st_size, 8) << "it was written";
    ASSERT_EQ(::chmod((a + f).c_str(), 0600), 0);
    ASSERT_EQ(code(::stat((b + f).c_str(), &seen)), 0);
    EXPECT_EQ(seen.st_mode & 07777, 0600u) << "its mode was changed";
    ASSERT_EQ(::rename((a + f).c_str(), (a + g).c_str()), 0);
    EXPECT_EQ(code(::stat((b + f).c_str(), &seen)), ENOENT) << "it was moved";
    ASSERT_EQ(code(::stat((b + g).c_str(), &seen)), 0);
    EXPECT_EQ(contents(b + g), "appended");
    ASSERT_EQ(::unlink((a + g).c_str()), 0);
    EXPECT_EQ(code(::stat((b + g).c_str(), &seen)), ENOENT) << "it was removed";
  }
}

TEST_F(Mounts, AReaderSeesWhatAnotherMountAppendsToTheFileThatItHasOpen) {
  const std::string one = start_and_mount(), other = mount();
  const int writer = ::open((one + "/log").c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_APPEND, 0644);
  const int reader = ::open((other + "/log").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  ASSERT_GE(reader, 0);
  std::string all;
  std::mt19937_64 dice(7);
  for (int round = 0; round < 100; ++round) {
    const std::string more = random_bytes(dice, 1 + dice() % 6000);
    ASSERT_EQ(::write(writer, more.data(), more.size()), static_cast<ssize_t>(more.size()));
    ASSERT_EQ(::fsync(writer), 0);
    all += more;
    std::string seen(all.size() + 1, '\0');
    const ssize_t got = ::pread(reader, seen.data(), seen.size(), 0);
    ASSERT_EQ(got, static_cast<ssize_t>(all.size())) << "in round " << round;
    seen.resize(all.size());
    ASSERT_TRUE(seen == all) << "in round " << round;
  }
  ::close(writer);
  ::close(reader);
}

TEST_F(Mounts, AReaderSeesARewriteThatLeavesSizeAndTimeOfTheFileThatItHasOpen) {
  const std::string one = start_and_mount(), other = mount();
  const int made = ::open((one + "/f").c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0644);
  ASSERT_TRUE(write_all(made, std::string(8192, 'A'), 0));
  ASSERT_EQ(::close(made), 0);
  const int reader = ::open((one + "/f").c_str(), O_RDONLY | O_CLOEXEC);
  const auto reads = [reader] {
    std::string seen(8192, '\0');
    EXPECT_EQ(::pread(reader, seen.data(), seen.size(), 0), 8192);
    return seen;
  };
  EXPECT_TRUE(reads() == std::string(8192, 'A'));
  struct stat before{};
  ASSERT_EQ(::fstat(reader, &before), 0);
  for (const char letter : {'B', 'C', 'D', 'E'}) {
    SCOPED_TRACE(letter);
    // The kernel asks again at once when it was told of the change, and after a second when it was not.
    if (letter == 'D') std::this_thread::sleep_for(seconds(2));
    const int writer = ::open((other + "/f").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_TRUE(write_all(writer, std::string(8192, letter), 0));
    const timespec times[] = {before.st_atim, before.st_mtim};
    ASSERT_EQ(::futimens(writer, times), 0);
    ASSERT_EQ(::fsync(writer), 0);
    ASSERT_EQ(::close(writer), 0);
    // Who looks at the name in between tells the kernel of the change as well.
    struct stat looked{};
    if (letter == 'E') ASSERT_EQ(::stat((one + "/f").c_str(), &looked), 0);
    EXPECT_TRUE(reads() == std::string(8192, letter));
    ASSERT_EQ(::fstat(reader, &looked), 0);
    EXPECT_EQ(looked.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
  }
  // The answer to a change of its own keeps the kernel from seeing that the time is another.
  const int writer = ::open((other + "/f").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_TRUE(write_all(writer, std::string(8192, 'F'), 0));
  ASSERT_EQ(::close(writer), 0);
  ASSERT_EQ(::fchmod(reader, 0600), 0);
  EXPECT_TRUE(reads() == std::string(8192, 'F'));
  ::close(reader);
}

TEST_F(Mounts, OneThatStandsStillKeepsNobodyWaitingForLonger) {
  const std::string one = start_and_mount(), other = mount();
  ASSERT_EQ(::mkdir((one + "/d").c_str(), 0755), 0);
  for (int i = 0; i < 3; ++i) {
    struct stat seen{};
    EXPECT_EQ(code(::stat((one + "/d/f").c_str(), &seen)), ENOENT);
    const pid_t child = child_of(parent_of(one));
    ASSERT_EQ(::kill(child, SIGSTOP), 0);
    const auto begin = std::chrono::steady_clock::now();
    const int made = ::open((other + "/d/f").c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, 0644);
    EXPECT_GE(made, 0) << std::strerror(errno);
    ::close(made);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(20))
        << "its lease, and what its kernel believes";
    ASSERT_EQ(::kill(child, SIGCONT), 0);
    EXPECT_EQ(code(::stat((one + "/d/f").c_str(), &seen)), 0) << "its kernel believes nothing any more";
    EXPECT_EQ(::unlink((other + "/d/f").c_str()), 0);
  }
}

TEST_F(Mounts, OneThatStandsStillLosesWhatItDidNotWriteOutAndSaysSo) {
  const std::string one = start_and_mount(), other = mount();
  const int file = ::open((one + "/f").c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0644);
  ASSERT_GE(file, 0);
  ASSERT_TRUE(write_all(file, "synced", 0));
  ASSERT_EQ(::fsync(file), 0);
  ASSERT_TRUE(write_all(file, "kept back", 0));
  const pid_t child = child_of(parent_of(one));
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  EXPECT_EQ(contents(other + "/f"), "synced") << "the other mount waits for some seconds, and no longer";
  const int theirs = ::open((other + "/f").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(theirs, 0);
  EXPECT_TRUE(write_all(theirs, "theirs", 0));
  EXPECT_EQ(::close(theirs), 0);
  ASSERT_EQ(::kill(child, SIGCONT), 0);
  EXPECT_EQ(code(::fsync(file)), ESTALE) << "what was kept back is given up";
  (void)::close(file);
  EXPECT_EQ(contents(one + "/f"), "theirs");
  EXPECT_EQ(contents(other + "/f"), "theirs");
}

TEST_F(Mounts, ADirectoryThatAnotherOneMovedIsNotTakenForTheOneThatIsRemoved) {
  const std::string one = start_and_mount(), other = mount();
  for (int round = 0; round < 5; ++round) {
    const std::string a = "/a" + std::to_string(round), b = "/b" + std::to_string(round);
    ASSERT_EQ(::mkdir((one + a).c_str(), 0755), 0);
    ASSERT_EQ(::mkdir((one + b).c_str(), 0755), 0);
    const int held = ::open((one + a).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(::renameat2(AT_FDCWD, (other + a).c_str(), AT_FDCWD, (other + b).c_str(), RENAME_EXCHANGE), 0);
    ASSERT_EQ(::rmdir((one + a).c_str()), 0);
    EXPECT_TRUE(eventually([&] { return ::mkdir((one + b + "/c").c_str(), 0755) == 0; }, seconds(5)))
        << std::strerror(errno);
    EXPECT_EQ(::rmdir((one + b + "/c").c_str()), 0);
    ::close(held);
    EXPECT_EQ(::rmdir((other + b).c_str()), 0);
  }
}

TEST_F(Mounts, LocksHoldOverAllMounts) {
  const std::string one = start_and_mount(), other = mount();
  const int a = ::open((one + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0644);
  const int b = ::open((other + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(a, 0);
  ASSERT_GE(b, 0);
  ASSERT_EQ(::flock(a, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(code(::flock(b, LOCK_EX | LOCK_NB)), EWOULDBLOCK);
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_start = 10;
  range.l_len = 10;
  EXPECT_EQ(::fcntl(a, F_SETLK, &range), 0) << "flock and fcntl are apart";
  range.l_start = 15;
  EXPECT_EQ(code(::fcntl(b, F_OFD_SETLK, &range)), EAGAIN);
  range.l_start = 20;
  EXPECT_EQ(::fcntl(b, F_OFD_SETLK, &range), 0);
  std::thread unlocks([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ::close(a);
  });
  EXPECT_EQ(::flock(b, LOCK_EX), 0) << "it waits until the other one closes";
  unlocks.join();
  ::close(b);
  const int c = ::open((one + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_TRUE(eventually([&] { return ::fcntl(c, F_SETLK, &range) == 0; }, seconds(5)))
      << "the lock of an open file description ends with it";
  ::close(c);
}

TEST_F(Mounts, LocksThatNobodyElseAskedForOutliveTheProcessOfTheMount) {
  const std::string one = start_and_mount(), other = mount();
  const int a = ::open((one + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0644);
  const int second = ::open((one + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(a, 0);
  ASSERT_GE(second, 0);
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_start = 10;
  range.l_len = 10;
  for (int i = 0; i < 300; ++i) {
    range.l_type = i % 2 == 0 ? F_WRLCK : F_UNLCK;
    ASSERT_EQ(::fcntl(a, F_OFD_SETLK, &range), 0) << std::strerror(errno);
  }
  range.l_type = F_WRLCK;
  ASSERT_EQ(::fcntl(a, F_OFD_SETLK, &range), 0);
  ASSERT_EQ(code(::fcntl(second, F_OFD_SETLK, &range)), EAGAIN) << "of another owner on the same mount";
  const pid_t child = child_of(parent_of(one));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(code(::fcntl(second, F_OFD_SETLK, &range)), EAGAIN);
  const int b = ::open((other + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(b, 0);
  EXPECT_EQ(code(::fcntl(b, F_OFD_SETLK, &range)), EAGAIN);
  range.l_type = F_UNLCK;
  ASSERT_EQ(::fcntl(a, F_OFD_SETLK, &range), 0);
  range.l_type = F_WRLCK;
  EXPECT_EQ(::fcntl(b, F_OFD_SETLK, &range), 0) << std::strerror(errno);
  EXPECT_EQ(code(::fcntl(a, F_OFD_SETLK, &range)), EAGAIN);
  for (const int file : {a, second, b})
    ::close(file);
}

TEST_F(Mounts, OneThatWaitsForALockUnderALeaseMayBeInterrupted) {
  const std::string mounted = start_and_mount();
  const int a = ::open((mounted + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0644);
  const int b = ::open((mounted + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  for (const bool whole_file : {true, false}) {
    const auto lock = [&](int file, bool wait, short type = F_WRLCK) {
      struct flock range{};
      range.l_type = type;
      range.l_len = 10;
      return whole_file ? ::flock(file, (type == F_UNLCK ? LOCK_UN : LOCK_EX) | (wait ? 0 : LOCK_NB))
                        : ::fcntl(file, wait ? F_OFD_SETLKW : F_OFD_SETLK, &range);
    };
    ASSERT_EQ(lock(a, false), 0);
    struct sigaction action{}, before{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, &before);
    std::atomic<int> result = -1;
    std::thread waits([&] { result = code(lock(b, true)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(result, -1) << "it waits";
    EXPECT_TRUE(eventually(
        [&] {
          if (result == -1) ::pthread_kill(waits.native_handle(), SIGUSR1);
          return result != -1;
        },
        seconds(5)));
    waits.join();
    EXPECT_EQ(result, EINTR);
    ::sigaction(SIGUSR1, &before, nullptr);
    std::thread granted([&] { EXPECT_EQ(lock(b, true), 0) << std::strerror(errno); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(lock(a, false, F_UNLCK), 0);
    granted.join();
  }
  ::close(a);
  ::close(b);
}

}  // namespace
}  // namespace kintsugi::processes
