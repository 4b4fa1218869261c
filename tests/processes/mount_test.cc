// What an application sees of a mounted cluster.
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <dirent.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/processes/mounts.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;

std::string random_bytes(std::mt19937_64& dice, size_t bytes) {
  std::string text(bytes, '\0');
  for (char& c : text)
    c = static_cast<char>(dice());
  return text;
}

/// 0, or the errno.
int code(int64_t result) {
  return result < 0 ? errno : 0;
}

bool write_all(int file, const std::string& bytes, off_t offset) {
  return ::pwrite(file, bytes.data(), bytes.size(), offset) == static_cast<ssize_t>(bytes.size());
}

std::string contents(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::string("cannot be opened: ") + std::strerror(errno);
  std::string bytes;
  char buffer[65536];
  ssize_t got;
  while ((got = ::read(file, buffer, sizeof buffer)) > 0)
    bytes.append(buffer, static_cast<size_t>(got));
  if (got < 0) bytes = std::string("cannot be read: ") + std::strerror(errno);
  ::close(file);
  return bytes;
}

/// Does the same below the mount and below a directory of the local file system, and compares what comes of it.
class Twin {
 public:
  Twin(std::string ours, std::string local, uint64_t seed)
      : roots_{std::move(ours), std::move(local)}, dice_(seed) {}

  void step() {
    const std::string a = name(), b = name();
    const uint64_t which = dice_() % 24, offset = dice_() % 300'000, length = 1 + dice_() % 150'000;
    const std::string bytes = random_bytes(dice_, 1 + dice_() % (dice_() % 3 == 0 ? 200'000 : 4000));
    const mode_t mode = static_cast<mode_t>(dice_() & 0777);
    const uint64_t more = dice_();
    int results[2];
    for (int side = 0; side < 2; ++side) {
      const std::string p = roots_[side] + a, q = roots_[side] + b;
      results[side] = act(which, p, q, offset, length, bytes, mode, more);
    }
    EXPECT_EQ(results[0], results[1]) << "operation " << which << " on " << a << " and " << b << ": "
                                      << std::strerror(results[0]) << ", not " << std::strerror(results[1]);
  }

  void compare() {
    std::map<std::string, std::string> seen[2];
    for (int side = 0; side < 2; ++side)
      look(side, "", seen[side]);
    EXPECT_EQ(seen[0], seen[1]);
    for (const auto& [path, what] : seen[1]) {
      if (!what.starts_with("file")) continue;
      const std::string ours = contents(roots_[0] + path), theirs = contents(roots_[1] + path);
      EXPECT_TRUE(ours == theirs)
          << path << " differs at byte "
          << std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end()).first - ours.begin()
          << " of " << ours.size() << " and " << theirs.size();
    }
  }

 private:
  std::string name() {
    std::string path;
    for (uint64_t depth = dice_() % 3; depth > 0; --depth)
      path += "/d" + std::to_string(dice_() % 3);
    return path + "/f" + std::to_string(dice_() % 6);
  }

  static int act(uint64_t which, const std::string& p, const std::string& q, uint64_t offset, uint64_t length,
                 const std::string& bytes, mode_t mode, uint64_t more) {
    const auto with = [&](int flags, auto action) {
      const int file = ::open(p.c_str(), flags | O_CLOEXEC, 0644);
      if (file < 0) return errno;
      const int result = action(file);
      const int closed = ::close(file);
      return result != 0 ? result : code(closed);
    };
    const auto at = static_cast<off_t>(offset);
    const auto size = static_cast<off_t>(length);
    switch (which) {
      case 0:
      case 1:
      case 2: return with(O_RDWR | O_CREAT, [&](int f) { return write_all(f, bytes, at) ? 0 : errno; });
      case 3:
        return with(O_WRONLY | O_CREAT | O_TRUNC, [&](int f) { return write_all(f, bytes, 0) ? 0 : errno; });
      case 4:
        return with(O_WRONLY | O_APPEND, [&](int f) { return code(::write(f, bytes.data(), bytes.size())); });
      case 5: return with(O_WRONLY | O_CREAT | O_EXCL, [&](int f) { return code(::fsync(f)); });
      case 6: return code(::truncate(p.c_str(), at));
      case 7:
        return with(O_RDWR, [&](int f) {
          return code(::fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, size));
        });
      case 8: return with(O_RDWR, [&](int f) { return code(::fallocate(f, 0, at, size)); });
      case 9:
        return with(O_RDWR, [&](int f) { return code(::fallocate(f, FALLOC_FL_ZERO_RANGE, at, size)); });
      case 10: return code(::unlink(p.c_str()));
      case 11: {
        const std::string directory =
            std::filesystem::path(p).parent_path().string() + "/d" + std::to_string(more % 3);
        return code(::mkdir(directory.c_str(), mode | 0700));
      }
      case 12: {
        const std::string directory =
            std::filesystem::path(p).parent_path().string() + "/d" + std::to_string(more % 3);
        return code(::rmdir(directory.c_str()));
      }
      case 13: return code(::rename(p.c_str(), q.c_str()));
      case 14: return code(::renameat2(AT_FDCWD, p.c_str(), AT_FDCWD, q.c_str(), RENAME_EXCHANGE));
      case 15: return code(::renameat2(AT_FDCWD, p.c_str(), AT_FDCWD, q.c_str(), RENAME_NOREPLACE));
      case 16: return code(::link(p.c_str(), q.c_str()));
      case 17: return code(::symlink("some/where", p.c_str()));
      case 18: return code(::chmod(p.c_str(), mode | 0600));
      case 19:
        return code(::lchown(p.c_str(), static_cast<uid_t>(more % 1000), static_cast<gid_t>(more % 77)));
      case 20:
        return code(::lsetxattr(p.c_str(), "user.note", bytes.data(), std::min<size_t>(bytes.size(), 300),
                                more % 3 == 0 ? XATTR_CREATE : 0));
      case 21:
        return with(O_RDWR, [&](int f) {
          struct stat about{};
          ::fstat(f, &about);
          if (about.st_size == 0) return 0;
          const auto whole = static_cast<size_t>(about.st_size);
          auto* memory = static_cast<char*>(::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0));
          if (memory == MAP_FAILED) return errno;
          const size_t begin = offset % whole;
          std::memcpy(memory + begin, bytes.data(), std::min(bytes.size(), whole - begin));
          const int synced = code(::msync(memory, whole, MS_SYNC));
          ::munmap(memory, whole);
          return synced;
        });
      case 22:
        return with(O_RDWR, [&](int f) {
          const int to = ::open(q.c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0644);
          if (to < 0) return errno;
          off_t from_offset = at / 2, to_offset = size / 2;
          ssize_t copied = 0;
          uint64_t left = length;
          struct stat one{}, other{};
          ::fstat(f, &one);
          ::fstat(to, &other);
          // Ranges of one file that overlap are refused, by some kernels only for some lengths.
          if (one.st_ino != other.st_ino)
            while (left > 0 && (copied = ::copy_file_range(f, &from_offset, to, &to_offset, left, 0)) > 0)
              left -= static_cast<uint64_t>(copied);
          const int result = code(copied);
          ::close(to);
          return result;
        });
      default: {
        const timespec times[2] = {{static_cast<time_t>(more % 2'000'000'000), 123'456'789},
                                   {static_cast<time_t>(more / 3 % 2'000'000'000), 987'654'321}};
        return code(::utimensat(AT_FDCWD, p.c_str(), times, AT_SYMLINK_NOFOLLOW));
      }
    }
  }

  void look(int side, const std::string& directory, std::map<std::string, std::string>& seen) {
    for (const auto& entry : std::filesystem::directory_iterator(roots_[side] + directory)) {
      const std::string path = directory + "/" + entry.path().filename().string();
      struct stat about{};
      ASSERT_EQ(::lstat(entry.path().c_str(), &about), 0) << path;
      std::string what = S_ISDIR(about.st_mode) ? "directory" : S_ISLNK(about.st_mode) ? "link" : "file";
      what += " mode " + std::to_string(about.st_mode & 07777) + " links " + std::to_string(about.st_nlink) +
              " owner " + std::to_string(about.st_uid) + ":" + std::to_string(about.st_gid);
      if (!S_ISDIR(about.st_mode)) what += " size " + std::to_string(about.st_size);
      char note[400];
      const ssize_t bytes = ::lgetxattr(entry.path().c_str(), "user.note", note, sizeof note);
      if (bytes >= 0)
        what += " note " + std::to_string(std::hash<std::string>()({note, static_cast<size_t>(bytes)}));
      seen[path] = what;
      if (S_ISDIR(about.st_mode)) look(side, path, seen);
    }
  }

  std::string roots_[2];
  std::mt19937_64 dice_;
};

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
