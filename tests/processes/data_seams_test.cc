// Two real mounts that make, change and open the same file.
#include <csignal>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/processes/mounts.h"

namespace kintsugi::processes {
namespace {

using std::chrono::milliseconds;

constexpr uid_t kUser = 1001;

TEST_F(Mounts, AFileThatAnotherOneChangedWhileItWasOpenHereIsReadAnewByTheNextOpen) {
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
  std::this_thread::sleep_for(milliseconds(3000));
  const int open = ::open((one + "/copied").c_str(), O_RDONLY | O_CLOEXEC);
  std::string bytes(10'000, 0);
  ASSERT_EQ(::read(open, bytes.data(), bytes.size()), 10'000);
  EXPECT_EQ(bytes, std::string(10'000, 'a'));
  write(other + "/copied", std::string(10'000, 'b'), then);
  std::this_thread::sleep_for(milliseconds(1500));
  struct stat shown{};
  ASSERT_EQ(::fstat(open, &shown), 0);
  ASSERT_EQ(::close(open), 0);
  EXPECT_EQ(read_file(one + "/copied"), std::string(10'000, 'b'));
}

TEST_F(Mounts, WhoMakesAFileThatSomebodyElseMadeMeanwhileMayReadItOnlyWhenItsModeSaysSo) {
  const std::string one = start_and_mount(), other = mount();
  ASSERT_EQ(::mkdir((one + "/tmp").c_str(), 0755), 0);
  ASSERT_EQ(::chmod((one + "/tmp").c_str(), 01777), 0);
  struct stat shown{};
  ASSERT_EQ(::stat((other + "/tmp").c_str(), &shown), 0);
  std::this_thread::sleep_for(milliseconds(1500));
  const std::string name = "/tmp/secret";
  const pid_t child = child_of(parent_of(one));
  // The way there is root's alone.
  const int directory = ::open((one + "/tmp").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(directory, 0);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t user = ::fork();
  if (user == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setgid(kUser) != 0 || ::setuid(kUser) != 0) ::_exit(99);
    struct stat none{};
    if (::fstatat(directory, "secret", &none, 0) == 0)
      ::_exit(98);  // the kernel believes that it is not there
    char go = 'x';
    if (::write(ends[1], &go, 1) != 1) ::_exit(97);
    ::usleep(300'000);
    const int file = ::openat(directory, "secret", O_RDWR | O_CREAT, 0644);
    ::_exit(file < 0 ? errno : 0);
  }
  ::close(ends[1]);
  char go = 0;
  int status = 0;
  if (::read(ends[0], &go, 1) != 1) {
    ::waitpid(user, &status, 0);
    FAIL() << "the user gets nowhere: " << WEXITSTATUS(status);
  }
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  std::thread root([&] {
    const int file = ::open((other + name).c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
    EXPECT_GE(file, 0) << std::strerror(errno);
    EXPECT_EQ(::write(file, "secret", 6), 6);
    ::close(file);
  });
  std::this_thread::sleep_for(milliseconds(600));
  ASSERT_EQ(::kill(child, SIGCONT), 0);
  root.join();
  pid_t ended = 0;
  for (int wait = 0; wait < 200 && ended == 0; ++wait) {
    ended = ::waitpid(user, &status, WNOHANG);
    if (ended == 0) std::this_thread::sleep_for(milliseconds(50));
  }
  if (ended == 0) {
    ::kill(user, SIGKILL);
    ::waitpid(user, &status, 0);
    FAIL() << "the open hangs for ever, and with it every open on this mount of a file that others changed";
  }
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), EACCES) << "a user has the file of root, mode 0600, open";
  ::close(directory);
  ::close(ends[0]);
}

TEST_F(Mounts, TwoThatMakeTheSameFileAtTheSameTimeBothHaveItOpen) {
  const std::string one = start_and_mount(), other = mount();
  for (int i = 0; i < 40; ++i) {
    const std::string name = "/f" + std::to_string(i);
    pid_t makers[2];
    for (int who : {0, 1}) {
      makers[who] = ::fork();
      if (makers[who] != 0) continue;
      const int file = ::open(((who == 0 ? one : other) + name).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
      ::_exit(file >= 0 && ::write(file, "x", 1) == 1 && ::close(file) == 0 ? 0 : 1);
    }
    for (const pid_t maker : makers) {
      int status = -1;
      pid_t ended = 0;
      for (int wait = 0; wait < 200 && ended == 0; ++wait) {
        ended = ::waitpid(maker, &status, WNOHANG);
        if (ended == 0) std::this_thread::sleep_for(milliseconds(50));
      }
      EXPECT_EQ(ended, maker) << "open hangs, try " << i;
      if (ended == 0) {
        ::kill(maker, SIGKILL);
        ::waitpid(maker, &status, 0);
      }
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "try " << i;
    }
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace kintsugi::processes
