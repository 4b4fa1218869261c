// Mounting as root and as a user, and what is said when it does not work.
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/mount/mounted.h"

namespace kintsugi::mount {
namespace {

TEST(MountPoint, SaysWhatIsWrongWithTheDirectory) {
  const ScratchDirectory scratch;
  EXPECT_EQ(mount_at(scratch.path() + "/none", {}).error().code(), Code::kNotFound);
  write_file(scratch.path() + "/file", "");
  EXPECT_EQ(mount_at(scratch.path() + "/file", {}).error().code(), Code::kNotDirectory);
}

TEST(MountPoint, ADeadMountIsNamedWithTheWayOut) {
  KINTSUGI_NEEDS_FUSE();
  const ScratchDirectory scratch;
  const auto device = mount_at(scratch.path(), {});
  ASSERT_TRUE(device.has_value());
  ::close(*device);
  const Status status = mount_at(scratch.path(), {}).error();
  EXPECT_EQ(status.code(), Code::kStale);
  EXPECT_NE(status.message().find("umount -l " + scratch.path()), std::string::npos) << status;
  EXPECT_TRUE(unmount(scratch.path(), true).ok());
  EXPECT_FALSE(mounted_device(scratch.path()));
}

TEST(MountPoint, NamesWithSpacesAreFound) {
  KINTSUGI_NEEDS_FUSE();
  const ScratchDirectory scratch;
  const std::string directory = scratch.path() + "/with a space\tand more";
  std::filesystem::create_directory(directory);
  const auto device = mount_at(directory, {.source = "a,b\\c"});
  ASSERT_TRUE(device.has_value());
  EXPECT_TRUE(mounted_device(directory));
  EXPECT_TRUE(mounted_device(directory + "/"));
  EXPECT_FALSE(mounted_device(scratch.path()));
  EXPECT_TRUE(unmount(directory, true).ok());
  ::close(*device);
}

TEST(MountPoint, OptionsHold) {
  KINTSUGI_NEEDS_FUSE();
  Mounted<> mounted({}, {.read_only = true, .no_exec = true, .read_ahead_bytes = 1 << 20});
  EXPECT_EQ(outcome(::open(mounted.path("a").c_str(), O_CREAT | O_RDWR, 0600)), -EROFS);
  std::ifstream setting("/sys/class/bdi/" + *mounted_device(mounted.path()) + "/read_ahead_kb");
  int kib = 0;
  if (setting >> kib) EXPECT_EQ(kib, 1024);
}

TEST(MountPoint, AUserMountsThroughTheHelper) {
  KINTSUGI_NEEDS_FUSE();
  if (::system("command -v fusermount3 >/dev/null && test -w /dev/fuse") != 0)
    GTEST_SKIP() << "skipped: no fusermount3";
  struct stat device_mode{};
  ASSERT_EQ(::stat("/dev/fuse", &device_mode), 0);
  if ((device_mode.st_mode & 0006) != 0006) GTEST_SKIP() << "skipped: /dev/fuse is not for users here";
  const ScratchDirectory scratch;
  ASSERT_EQ(::chown(scratch.path().c_str(), 65534, 65534), 0);
  const pid_t user = ::fork();
  if (user == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
    const auto device = mount_at(scratch.path(), {.source = "a,b", .allow_other = false});
    if (!device) {
      std::fprintf(stderr, "%s\n", device.error().to_string().c_str());
      ::_exit(2);
    }
    if (!mounted_device(scratch.path())) ::_exit(3);
    if (!unmount(scratch.path(), true).ok()) ::_exit(4);
    ::_exit(mounted_device(scratch.path()) ? 5 : 0);
  }
  int status = 0;
  ::waitpid(user, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(MountPoint, WithoutTheHelperAUserIsToldWhatToInstall) {
  const ScratchDirectory scratch;
  const pid_t user = ::fork();
  if (user == 0) {
    if (::chown(scratch.path().c_str(), 65534, 65534) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0)
      ::_exit(9);
    ::setenv("PATH", "/nowhere", 1);
    const Status status = mount_at(scratch.path(), {}).error();
    ::_exit(status.code() == Code::kNotFound && status.message().find("fuse3") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ::waitpid(user, &status, 0);
  if (WEXITSTATUS(status) == 9) GTEST_SKIP() << "skipped: needs root to become another user";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace kintsugi::mount
