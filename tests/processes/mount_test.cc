// What an application sees of a mounted cluster.
#include <atomic>
#include <csignal>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include <sys/statvfs.h>
#include <sys/wait.h>

#include "tests/processes/mounts.h"
#include "tests/processes/twin.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;

TEST_F(Mounts, DoWhatALocalFileSystemDoes) {
  const std::string mounted = start_and_mount();
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    const std::string ours = mounted + "/" + std::to_string(seed),
                      local = path("local" + std::to_string(seed));
    std::filesystem::create_directory(ours);
    std::filesystem::create_directory(local);
    Twin twin(ours, local, seed);
    for (int i = 1; i <= 600 && !HasFailure(); ++i) {
      twin.step();
      if (i % 100 == 0) twin.compare();
    }
  }
  unmount(mounted);
  EXPECT_TRUE(healthy());
}

TEST_F(Mounts, AnApplicationDoesNotNoticeThatTheProcessOfTheMountDies) {
  const std::string mounted = start_and_mount();
  const pid_t parent = parent_of(mounted);
  std::atomic<bool> ends = false;
  std::thread killer([&] {
    // One that dies again and again is started later and later: on a slow machine there would be no end to it.
    for (int kills = 0; !ends && kills < 8;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      const pid_t child = child_of(parent);
      if (child > 0) kills += ::kill(child, SIGKILL) == 0;
    }
  });
  const std::string local = path("local");
  std::filesystem::create_directory(local);
  std::filesystem::create_directory(mounted + "/d");
  Twin twin(mounted + "/d", local, 7);
  for (int i = 1; i <= 500 && !HasFailure(); ++i) {
    twin.step();
    if (i % 100 == 0) twin.compare();
  }
  ends = true;
  killer.join();
  twin.compare();
  EXPECT_NE(read_file(mounted + ".log").find("taking over"), std::string::npos) << "no process was killed";
}

TEST_F(Mounts, NamesOutliveTheProcessOfTheMountAndTheMetaserver) {
  const std::string mounted = start_and_mount();
  std::filesystem::create_directory(mounted + "/d");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 50; ++i) {
      const std::string directory = mounted + "/d/" + std::to_string(round) + "-" + std::to_string(i);
      ASSERT_TRUE(std::filesystem::create_directory(directory));
      const int file = ::open((directory + "/f").c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
      ASSERT_GE(file, 0);
      EXPECT_TRUE(write_all(file, "kept", 0));
      EXPECT_EQ(::close(file), 0);
    }
    ASSERT_EQ(::kill(child_of(parent_of(mounted)), SIGKILL), 0);
    if (round % 2 == 1) {
      kill9("metaserver");
      restart_missing();
    }
    for (int i = 0; i < 50; ++i)
      EXPECT_EQ(contents(mounted + "/d/" + std::to_string(round) + "-" + std::to_string(i) + "/f"), "kept")
          << round << " " << i;
  }
  unmount(mounted);
  EXPECT_TRUE(healthy());
}

TEST_F(Mounts, FilesWithoutANameLiveUntilTheyAreClosed) {
  const std::string mounted = start_and_mount();
  std::mt19937_64 dice(5);
  const std::string bytes = random_bytes(dice, 200'000);
  const int file = ::open((mounted + "/gone").c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0644);
  ASSERT_TRUE(write_all(file, bytes, 0));
  ASSERT_EQ(::fsync(file), 0);
  ASSERT_EQ(::unlink((mounted + "/gone").c_str()), 0);
  ASSERT_TRUE(write_all(file, "end", 300'000));
  ASSERT_EQ(::fsync(file), 0);
  const int nameless = ::open(mounted.c_str(), O_TMPFILE | O_CLOEXEC | O_RDWR, 0640);
  ASSERT_GE(nameless, 0) << std::strerror(errno);
  ASSERT_TRUE(write_all(nameless, bytes, 0));
  // A process that starts another one closes copies of its files in between, and a close writes out.
  ASSERT_EQ(::fsync(nameless), 0);
  kill9("metaserver");
  restart_missing();
  std::string back(bytes.size(), '\0');
  ASSERT_EQ(::pread(file, back.data(), back.size(), 0), static_cast<ssize_t>(back.size()))
      << std::strerror(errno);
  EXPECT_TRUE(back == bytes);
  struct stat about{};
  ASSERT_EQ(::fstat(file, &about), 0);
  EXPECT_EQ(about.st_nlink, 0u);
  EXPECT_EQ(about.st_size, 300'003);
  const std::string here = "/proc/self/fd/" + std::to_string(nameless);
  ASSERT_EQ(::linkat(AT_FDCWD, here.c_str(), AT_FDCWD, (mounted + "/named").c_str(), AT_SYMLINK_FOLLOW), 0)
      << std::strerror(errno);
  ::close(nameless);
  ::close(file);
  EXPECT_TRUE(contents(mounted + "/named") == bytes);
  EXPECT_FALSE(std::filesystem::exists(mounted + "/gone"));
}

TEST_F(Mounts, WaitWhileServersAndTheMetaserverAreAway) {
  const std::string mounted = start_and_mount();
  std::mt19937_64 dice(9);
  const std::string before = random_bytes(dice, 3'000'000), after = random_bytes(dice, 3'000'000);
  int file = ::open((mounted + "/file").c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0644);
  ASSERT_TRUE(write_all(file, before, 0));
  ASSERT_EQ(::fsync(file), 0);
  kill9("chunkserver-1");
  kill9("chunkserver-2");
  kill9("metaserver");
  BackgroundCommand later(
      {"/bin/sh", "-c",
       "sleep 2; exec " KINTSUGI_BINARIES "/kintsugi cluster start --dir " + cluster_directory()},
      environment());
  // It has closed its copy of the file by now: that would wait for what it is going to start.
  ASSERT_TRUE(eventually(
      [&] { return read_file("/proc/" + std::to_string(later.pid()) + "/cmdline").starts_with("/bin/sh"); },
      seconds(10)));
  ASSERT_TRUE(write_all(file, after, 1'000'000));
  EXPECT_EQ(::fsync(file), 0) << std::strerror(errno);
  EXPECT_EQ(later.exit_code(), 0);
  ::close(file);
  unmount(mounted);
  const std::string again = mount();
  EXPECT_TRUE(contents(again + "/file") == before.substr(0, 1'000'000) + after);
}

TEST_F(Mounts, LinksAndPipesOfTheirsAreNotFetchedAsFiles) {
  const std::string mounted = start_and_mount();
  ASSERT_EQ(::mkdir((mounted + "/tree").c_str(), 0755), 0);
  const int file = ::open((mounted + "/tree/file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_TRUE(write_all(file, "bytes", 0));
  ASSERT_EQ(::close(file), 0);
  ASSERT_EQ(::symlink("file", (mounted + "/tree/link").c_str()), 0);
  ASSERT_EQ(::mkfifo((mounted + "/tree/pipe").c_str(), 0644), 0);
  const Outcome tree = kintsugi({"get", "/tree", path("fetched")});
  EXPECT_EQ(tree.exit_code, 1);
  EXPECT_NE(tree.err.find("/tree/link: symbolic link, skipped"), std::string::npos) << tree.err;
  EXPECT_NE(tree.err.find("/tree/pipe: pipe, skipped"), std::string::npos) << tree.err;
  EXPECT_EQ(contents(path("fetched/file")), "bytes");
  EXPECT_FALSE(std::filesystem::exists(path("fetched/link")));
  EXPECT_FALSE(std::filesystem::exists(path("fetched/pipe")));
  const Outcome link = kintsugi({"cat", "/tree/link"});
  EXPECT_EQ(link.exit_code, 1);
  EXPECT_EQ(link.out, "") << "bytes that nobody wrote";
}

TEST_F(Mounts, ObeyQuotasAndShowSnapshotsAndTrash) {
  const std::string mounted = start_and_mount(), d = mounted + "/d/", snapshot = d + ".snapshots/one/";
  ASSERT_EQ(::mkdir(d.c_str(), 0755), 0);
  const auto make = [](const std::string& name, const std::string& bytes) {
    const int file = ::open(name.c_str(), O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) return errno;
    const bool written = write_all(file, bytes, 0);
    const int synced = code(::fsync(file));
    (void)::close(file);
    return written ? synced : EIO;
  };
  const std::string much(600'000, 'm');
  ASSERT_EQ(make(d + "old", "before"), 0);
  // A quota is exact, told by fsync, and what it leaves is what df shows.
  ASSERT_EQ(kintsugi({"quota", "set", "/d", "--bytes", "1000000", "--files", "3"}).exit_code, 0);
  EXPECT_EQ(make(d + "a", much), 0);
  EXPECT_EQ(make(d + "b", much), EDQUOT);
  EXPECT_EQ(code(::mkdir((d + "c").c_str(), 0755)), EDQUOT);
  struct statvfs space{};
  ASSERT_EQ(::statvfs(d.c_str(), &space), 0);
  EXPECT_EQ(space.f_blocks * space.f_frsize, 1'000'000u / 4096 * 4096);
  EXPECT_EQ(space.f_files, 3u);
  EXPECT_EQ(space.f_ffree, 0u);
  EXPECT_EQ(::unlink((d + "b").c_str()), 0);
  EXPECT_EQ(::truncate((d + "a").c_str(), 10), 0);
  EXPECT_EQ(make(d + "b", much), 0);
  ASSERT_EQ(kintsugi({"quota", "remove", "/d"}).exit_code, 0);

  const Outcome made = kintsugi({"snapshot", "create", "/d", "one"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(make(d + "old", "after"), 0);
  EXPECT_EQ(::unlink((d + "b").c_str()), 0);
  EXPECT_EQ(contents(snapshot + "old"), "before");
  EXPECT_TRUE(contents(snapshot + "b") == much);
  EXPECT_EQ(contents(d + "old"), "after");
  EXPECT_EQ(code(::open((snapshot + "old").c_str(), O_RDWR | O_CLOEXEC)), EROFS);
  EXPECT_EQ(code(::open((snapshot + "new").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)), EROFS);
  EXPECT_EQ(code(::unlink((snapshot + "old").c_str())), EROFS);
  EXPECT_EQ(code(::chmod((snapshot + "old").c_str(), 0600)), EROFS);
  EXPECT_EQ(code(::rename((d + "old").c_str(), (mounted + "/old").c_str())), EXDEV);
  std::set<std::string> listed;
  for (const auto& entry : std::filesystem::directory_iterator(d))
    listed.insert(entry.path().filename());
  EXPECT_EQ(listed, (std::set<std::string>{"a", "old"}));
  ASSERT_EQ(kintsugi({"snapshot", "delete", "/d", "one"}).exit_code, 0);
  EXPECT_TRUE(eventually([&] { return kintsugi({"snapshot", "list", "/d"}).out.empty(); }, seconds(30)));

  ASSERT_EQ(kintsugi({"trash", "set", "/d", "--retention", "1h"}).exit_code, 0);
  EXPECT_EQ(::unlink((d + "old").c_str()), 0);
  const std::string trash = kintsugi({"trash", "list", "/d"}).out;
  const Outcome restored = kintsugi({"trash", "restore", "/d", trash.substr(0, trash.find(' '))});
  EXPECT_EQ(restored.out, "/d/old\n") << restored.err;
  EXPECT_TRUE(eventually([&] { return contents(d + "old") == "after"; }, seconds(10)));
}

TEST_F(Mounts, AnswerWithTheErrorsOfPosix) {
  const std::string mounted = start_and_mount(), d = mounted + "/";
  ASSERT_EQ(::mkdir((d + "dir").c_str(), 0755), 0);
  const int file = ::open((d + "file").c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0644);
  ASSERT_GE(file, 0);
  EXPECT_EQ(code(::open((d + std::string(256, 'n')).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)),
            ENAMETOOLONG);
  const std::string longest = d + std::string(255, 'n'), odd = d + "\xff\xfe\n";
  for (const std::string& name : {longest, odd}) {
    EXPECT_GE(::close(::open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)), 0);
    EXPECT_EQ(::unlink(name.c_str()), 0);
  }
  EXPECT_EQ(code(::open((d + "no").c_str(), O_RDWR | O_CLOEXEC)), ENOENT);
  EXPECT_EQ(code(::open((d + "file/x").c_str(), O_RDWR | O_CLOEXEC)), ENOTDIR);
  EXPECT_EQ(code(::open((d + "dir").c_str(), O_RDWR | O_CLOEXEC)), EISDIR);
  EXPECT_EQ(code(::open((d + "file").c_str(), O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0644)), EEXIST);
  EXPECT_EQ(code(::rmdir((d + "file").c_str())), ENOTDIR);
  EXPECT_EQ(code(::unlink((d + "dir").c_str())), EISDIR);
  EXPECT_EQ(code(::rename((d + "dir").c_str(), (d + "dir/below").c_str())), EINVAL);
  EXPECT_EQ(code(::rename((d + "dir").c_str(), (d + "file").c_str())), ENOTDIR);
  EXPECT_EQ(code(::rename((d + "file").c_str(), (d + "dir").c_str())), EISDIR);
  EXPECT_EQ(code(::link((d + "dir").c_str(), (d + "other").c_str())), EPERM);
  EXPECT_EQ(code(::fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 0, 4096)), EOPNOTSUPP);
  EXPECT_EQ(code(::lseek(file, 0, SEEK_DATA)), ENXIO);
  EXPECT_EQ(code(::setxattr((d + "file").c_str(), "user.x", "", 0, XATTR_REPLACE)), ENODATA);
  EXPECT_EQ(code(::ftruncate(file, -1)), EINVAL);
  ASSERT_EQ(::close(::open((d + "dir/x").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)), 0);
  EXPECT_EQ(code(::rmdir((d + "dir").c_str())), ENOTEMPTY);
  // Another user may neither write nor remove what is not his.
  ASSERT_EQ(::chmod((d + "dir").c_str(), 01777), 0);
  ASSERT_EQ(::chmod(path("").c_str(), 0755), 0);
  if (const pid_t pid = ::fork(); pid == 0) {
    if (::setgid(1234) != 0 || ::setuid(1234) != 0) ::_exit(1);
    const bool refused = code(::open((d + "file").c_str(), O_RDWR | O_CLOEXEC)) == EACCES &&
                         code(::unlink((d + "dir/x").c_str())) == EPERM &&
                         code(::chmod((d + "file").c_str(), 0777)) == EPERM &&
                         ::close(::open((d + "dir/mine").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) == 0;
    ::_exit(refused ? 0 : 2);
  } else {
    int status = -1;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  ::close(file);
}

}  // namespace
}  // namespace kintsugi::processes
