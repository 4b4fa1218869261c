// What applications may ask of a mount, through the real kernel.
#include <filesystem>
#include <set>
#include <thread>

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/mount/mounted.h"

namespace kintsugi::mount {
namespace {

namespace fs = std::filesystem;

class Posix : public ::testing::Test {
 protected:
  void SetUp() override {
    KINTSUGI_NEEDS_FUSE();
    mounted_ = std::make_unique<Mounted<>>();
  }
  std::string path(const std::string& name = "") { return mounted_->path(name); }
  struct stat status_of(const std::string& name) {
    struct stat found{};
    EXPECT_EQ(::lstat(path(name).c_str(), &found), 0) << name;
    return found;
  }
  std::unique_ptr<Mounted<>> mounted_;
};

TEST_F(Posix, AFileHoldsWhatWasWritten) {
  std::string big(5'000'000, 0);
  for (size_t i = 0; i < big.size(); ++i)
    big[i] = static_cast<char>(i * 7 + i / 4096);
  write_file(path("big"), big);
  EXPECT_EQ(contents_of(path("big")), big);
  EXPECT_EQ(status_of("big").st_size, 5'000'000);
  fs::remove(path("big"));
  EXPECT_FALSE(fs::exists(path("big")));
}

TEST_F(Posix, EverythingWasAgreedThatThisKernelCanDo) {
  ASSERT_TRUE(fs::exists(path()));
  const Negotiated agreed = mounted_->on_loop([&] { return mounted_->file_system->negotiated(); });
  EXPECT_EQ(agreed.max_write_bytes, 1u << 20);
  for (const uint64_t flag :
       {uint64_t{FUSE_ASYNC_READ}, uint64_t{FUSE_POSIX_LOCKS}, uint64_t{FUSE_FLOCK_LOCKS},
        uint64_t{FUSE_PARALLEL_DIROPS}, uint64_t{FUSE_POSIX_ACL}, uint64_t{FUSE_ATOMIC_O_TRUNC},
        uint64_t{FUSE_HANDLE_KILLPRIV_V2}, uint64_t{FUSE_AUTO_INVAL_DATA}}) {
    EXPECT_NE(agreed.flags & flag, 0u) << std::hex << flag;
  }
  EXPECT_EQ(agreed.flags & FUSE_WRITEBACK_CACHE, 0u);
}

TEST_F(Posix, RenameWithAllItsFlags) {
  write_file(path("a"), "A");
  write_file(path("b"), "B");
  EXPECT_EQ(outcome(::syscall(SYS_renameat2, AT_FDCWD, path("a").c_str(), AT_FDCWD, path("b").c_str(),
                              RENAME_NOREPLACE)),
            -EEXIST);
  EXPECT_EQ(outcome(::syscall(SYS_renameat2, AT_FDCWD, path("a").c_str(), AT_FDCWD, path("b").c_str(),
                              RENAME_EXCHANGE)),
            0);
  EXPECT_EQ(contents_of(path("a")), "B");
  EXPECT_EQ(contents_of(path("b")), "A");
  EXPECT_EQ(outcome(::syscall(SYS_renameat2, AT_FDCWD, path("a").c_str(), AT_FDCWD, path("c").c_str(),
                              RENAME_WHITEOUT)),
            -EINVAL);
  EXPECT_EQ(::rename(path("b").c_str(), path("c").c_str()), 0);
  EXPECT_EQ(contents_of(path("c")), "A");
  fs::create_directory(path("d"));
  fs::create_directory(path("d/e"));
  EXPECT_EQ(outcome(::rename(path("d").c_str(), path("d/e/f").c_str())), -EINVAL);
  EXPECT_EQ(outcome(::rmdir(path("d").c_str())), -ENOTEMPTY);
}

TEST_F(Posix, LinksCountAndSymlinksPoint) {
  write_file(path("a"), "A");
  ASSERT_EQ(::link(path("a").c_str(), path("b").c_str()), 0);
  EXPECT_EQ(status_of("b").st_nlink, 2u);
  EXPECT_EQ(status_of("a").st_ino, status_of("b").st_ino);
  fs::remove(path("a"));
  EXPECT_EQ(contents_of(path("b")), "A");
  EXPECT_EQ(status_of("b").st_nlink, 1u);
  const std::string target(4000, 't');
  ASSERT_EQ(::symlink(target.c_str(), path("s").c_str()), 0);
  EXPECT_EQ(fs::read_symlink(path("s")), target);
  ASSERT_EQ(::symlink("b", path("t").c_str()), 0);
  EXPECT_EQ(contents_of(path("t")), "A");
}

TEST_F(Posix, SpecialFiles) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0640), 0);
  EXPECT_EQ(status_of("fifo").st_mode, S_IFIFO | 0640u);
  ASSERT_EQ(::mknod(path("device").c_str(), S_IFCHR | 0600, ::makedev(1, 300)), 0);
  EXPECT_EQ(status_of("device").st_rdev, ::makedev(1, 300));
}

TEST_F(Posix, NamesOfEveryLength) {
  const std::string longest(255, 'n');
  write_file(path(longest), "x");
  EXPECT_EQ(contents_of(path(longest)), "x");
  EXPECT_EQ(outcome(::open(path(std::string(256, 'n')).c_str(), O_CREAT | O_RDWR, 0600)), -ENAMETOOLONG);
  EXPECT_EQ(outcome(::mkdir(path(std::string(256, 'n')).c_str(), 0700)), -ENAMETOOLONG);
  write_file(path("\xff\x01\n"), "y");
  EXPECT_EQ(contents_of(path("\xff\x01\n")), "y");
}

TEST_F(Posix, AttributesKeepNanosecondsAndTimesBefore1970) {
  write_file(path("a"), "A");
  const timespec times[2] = {{-5, 123456789}, {1'700'000'000, 987654321}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path("a").c_str(), times, 0), 0);
  const auto found = status_of("a");
  EXPECT_EQ(found.st_atim.tv_sec, -5);
  EXPECT_EQ(found.st_atim.tv_nsec, 123456789);
  EXPECT_EQ(found.st_mtim.tv_sec, 1'700'000'000);
  EXPECT_EQ(found.st_mtim.tv_nsec, 987654321);
  ASSERT_EQ(::chmod(path("a").c_str(), 0751), 0);
  ASSERT_EQ(::chown(path("a").c_str(), 12, 34), 0);
  EXPECT_EQ(status_of("a").st_mode & 07777, 0751u);
  EXPECT_EQ(status_of("a").st_uid, 12u);
  EXPECT_EQ(status_of("a").st_gid, 34u);
}

TEST_F(Posix, UmaskIsLeftToTheFileSystem) {
  const mode_t before = ::umask(027);
  write_file(path("a"), "");
  fs::create_directory(path("d"));
  ::umask(before);
  EXPECT_EQ(status_of("a").st_mode & 0777, 0640u);
  EXPECT_EQ(status_of("d").st_mode & 0777, 0750u);
}

TEST_F(Posix, WritingTakesSetUserIdAway) {
  write_file(path("a"), "A");
  ASSERT_EQ(::chmod(path("a").c_str(), 06777), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const int file = ::open(path("a").c_str(), O_WRONLY);
    if (::setgid(1000) != 0 || ::setuid(1000) != 0) ::_exit(1);
    ::_exit(::write(file, "B", 1) == 1 ? 0 : 2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(eventually([&] { return (status_of("a").st_mode & 07777) == 0777u; }));
}

TEST_F(Posix, ExtendedAttributes) {
  write_file(path("a"), "A");
  const std::string name = path("a");
  const char* file = name.c_str();
  EXPECT_EQ(::setxattr(file, "user.one", "1", 1, XATTR_CREATE), 0);
  EXPECT_EQ(outcome(::setxattr(file, "user.one", "2", 1, XATTR_CREATE)), -EEXIST);
  EXPECT_EQ(outcome(::setxattr(file, "user.two", "2", 1, XATTR_REPLACE)), -ENODATA);
  const std::string large(65536, 'v');
  EXPECT_EQ(::setxattr(file, "user.large", large.data(), large.size(), 0), 0);
  EXPECT_EQ(::getxattr(file, "user.large", nullptr, 0), 65536);
  std::string got(65536, 0);
  EXPECT_EQ(::getxattr(file, "user.large", got.data(), got.size()), 65536);
  EXPECT_EQ(got, large);
  EXPECT_EQ(outcome(::getxattr(file, "user.large", got.data(), 100)), -ERANGE);
  EXPECT_EQ(::listxattr(file, nullptr, 0), 9 + 11);
  EXPECT_EQ(::setxattr(file, "user.empty", "", 0, 0), 0);
  EXPECT_EQ(::getxattr(file, "user.empty", got.data(), 100), 0);
  EXPECT_EQ(::removexattr(file, "user.one"), 0);
  EXPECT_EQ(outcome(::getxattr(file, "user.one", got.data(), 100)), -ENODATA);
}

TEST_F(Posix, AFileWithoutANameGetsOne) {
  const int file = ::open(path().c_str(), O_TMPFILE | O_RDWR, 0600);
  ASSERT_GE(file, 0) << errno;
  ASSERT_EQ(::write(file, "hello", 5), 5);
  EXPECT_TRUE(fs::is_empty(path()));
  ASSERT_EQ(::linkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", file).c_str(), AT_FDCWD, path("named").c_str(),
                     AT_SYMLINK_FOLLOW),
            0)
      << errno;
  ::close(file);
  EXPECT_EQ(contents_of(path("named")), "hello");
}

TEST_F(Posix, AnUnlinkedFileLivesUntilItIsClosed) {
  const int file = ::open(path("a").c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_EQ(::write(file, "hello", 5), 5);
  fs::remove(path("a"));
  char got[5];
  EXPECT_EQ(::pread(file, got, 5, 0), 5);
  struct stat found{};
  EXPECT_EQ(::fstat(file, &found), 0);
  EXPECT_EQ(found.st_nlink, 0u);
  ::close(file);
}

TEST_F(Posix, HolesAreFoundMadeAndFilled) {
  const int file = ::open(path("a").c_str(), O_CREAT | O_RDWR, 0600);
  constexpr off_t kMega = 1 << 20;
  const std::string data(kMega, 'd');
  ASSERT_EQ(::pwrite(file, data.data(), kMega, 0), kMega);
  ASSERT_EQ(::pwrite(file, data.data(), kMega, 3 * kMega), kMega);
  EXPECT_EQ(::lseek(file, 0, SEEK_HOLE), kMega);
  EXPECT_EQ(::lseek(file, kMega, SEEK_DATA), 3 * kMega);
  EXPECT_EQ(outcome(::lseek(file, 4 * kMega, SEEK_DATA)), -ENXIO);
  ASSERT_EQ(::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kMega / 2), 0);
  EXPECT_EQ(::lseek(file, 0, SEEK_DATA), kMega / 2);
  char byte = 1;
  EXPECT_EQ(::pread(file, &byte, 1, 100), 1);
  EXPECT_EQ(byte, 0);
  ASSERT_EQ(::fallocate(file, 0, 0, 8 * kMega), 0);
  EXPECT_EQ(status_of("a").st_size, 8 * kMega);
  EXPECT_EQ(outcome(::fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 0, 4096)), -EOPNOTSUPP);
  ASSERT_EQ(::ftruncate(file, 100), 0);
  EXPECT_EQ(status_of("a").st_size, 100);
  ::close(file);
}

TEST_F(Posix, DirectIoReachesTheFileSystem) {
  const int file = ::open(path("a").c_str(), O_CREAT | O_RDWR | O_DIRECT, 0600);
  ASSERT_GE(file, 0);
  constexpr size_t kBytes = 3 << 20;
  void* memory = std::aligned_alloc(4096, kBytes);
  std::memset(memory, 'x', kBytes);
  ASSERT_EQ(::pwrite(file, memory, kBytes, 0), static_cast<ssize_t>(kBytes));
  std::memset(memory, 0, kBytes);
  ASSERT_EQ(::pread(file, memory, kBytes, 0), static_cast<ssize_t>(kBytes));
  EXPECT_EQ(std::string_view(static_cast<char*>(memory), kBytes).find_first_not_of('x'),
            std::string_view::npos);
  std::free(memory);
  ::close(file);
}

TEST_F(Posix, MappingsAreSharedWithReadsAndWrites) {
  const int file = ::open(path("a").c_str(), O_CREAT | O_RDWR, 0600);
  constexpr size_t kBytes = 1 << 20;
  ASSERT_EQ(::ftruncate(file, kBytes), 0);
  auto* mapped = static_cast<char*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ASSERT_NE(mapped, MAP_FAILED);
  std::memset(mapped, 'm', kBytes);
  char byte = 0;
  EXPECT_EQ(::pread(file, &byte, 1, 5000), 1);
  EXPECT_EQ(byte, 'm');
  EXPECT_EQ(::pwrite(file, "w", 1, 6000), 1);
  EXPECT_EQ(mapped[6000], 'w');
  ASSERT_EQ(::msync(mapped, kBytes, MS_SYNC), 0);
  ::munmap(mapped, kBytes);
  ::close(file);
  std::string expected(kBytes, 'm');
  expected[6000] = 'w';
  const int direct = ::open(path("a").c_str(), O_RDONLY | O_DIRECT);
  void* memory = std::aligned_alloc(4096, kBytes);
  ASSERT_EQ(::pread(direct, memory, kBytes, 0), static_cast<ssize_t>(kBytes));
  EXPECT_EQ(std::string_view(static_cast<char*>(memory), kBytes), expected);
  std::free(memory);
  ::close(direct);
}

TEST_F(Posix, LocksKeepOthersOut) {
  write_file(path("a"), std::string(100, 'a'));
  const int first = ::open(path("a").c_str(), O_RDWR), second = ::open(path("a").c_str(), O_RDWR);
  ASSERT_EQ(::flock(first, LOCK_EX), 0);
  EXPECT_EQ(outcome(::flock(second, LOCK_EX | LOCK_NB)), -EWOULDBLOCK);
  auto waits = std::async(std::launch::async, [&] { return ::flock(second, LOCK_EX); });
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  ASSERT_EQ(::flock(first, LOCK_UN), 0);
  EXPECT_EQ(waits.get(), 0);

  struct flock range{.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 10};
  ASSERT_EQ(::fcntl(first, F_SETLK, &range), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    struct flock asked{.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    if (::fcntl(second, F_GETLK, &asked) != 0 || asked.l_type != F_WRLCK || asked.l_start != 10 ||
        asked.l_len != 10 || asked.l_pid != ::getppid()) {
      ::_exit(1);
    }
    asked = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 15, .l_len = 1};
    if (::fcntl(second, F_SETLK, &asked) == 0) ::_exit(2);
    asked = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 20, .l_len = 0};
    if (::fcntl(second, F_SETLK, &asked) != 0) ::_exit(3);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ::close(first);
  ::close(second);
}

TEST_F(Posix, ListingsHaveEachEntryOnceWhileOthersComeAndGo) {
  constexpr int kEntries = 10'000;
  for (int i = 0; i < kEntries; ++i) {
    const int file = ::open(path(fmt::format("stays_{}", i)).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    ::close(file);
  }
  std::atomic<bool> done = false;
  std::thread churn([&] {
    for (int i = 0; !done; ++i) {
      const std::string name = path(fmt::format("comes_{}", i % 100));
      ::close(::open(name.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
      if (i % 2 == 1) ::unlink(path(fmt::format("comes_{}", i / 2 % 100)).c_str());
    }
  });
  for (int round = 0; round < 3; ++round) {
    std::set<std::string> seen;
    DIR* directory = ::opendir(path().c_str());
    while (const dirent* entry = ::readdir(directory)) {
      const std::string name = entry->d_name;
      if (name.starts_with("comes_")) continue;
      EXPECT_TRUE(seen.insert(name).second) << name;
      if (round == 1 && seen.size() == 5000) {
        // A position survives being told and sought.
        const long at = ::telldir(directory);
        ::rewinddir(directory);
        ::seekdir(directory, at);
      }
    }
    ::closedir(directory);
    EXPECT_EQ(seen.size(), kEntries + 2u);
  }
  done = true;
  churn.join();
}

TEST_F(Posix, CopiesAreMadeByTheFileSystem) {
  write_file(path("a"), std::string(300'000, 'a'));
  const int from = ::open(path("a").c_str(), O_RDONLY),
            to = ::open(path("b").c_str(), O_CREAT | O_RDWR, 0600);
  EXPECT_EQ(::copy_file_range(from, nullptr, to, nullptr, 300'000, 0), 300'000);
  ::close(from);
  ::close(to);
  EXPECT_EQ(contents_of(path("b")), std::string(300'000, 'a'));
}

TEST_F(Posix, SpaceIsTold) {
  struct statvfs found{};
  ASSERT_EQ(::statvfs(path().c_str(), &found), 0);
  EXPECT_EQ(found.f_blocks, 1u << 20);
  EXPECT_EQ(found.f_namemax, 255u);
}

TEST_F(Posix, AppendsOfTwoDescriptorsDoNotOverwriteOneAnother) {
  const int first = ::open(path("log").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  const int second = ::open(path("log").c_str(), O_WRONLY | O_APPEND);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(::write(first, "1", 1), 1);
    ASSERT_EQ(::write(second, "2", 1), 1);
  }
  ::close(first);
  ::close(second);
  const std::string all = contents_of(path("log"));
  EXPECT_EQ(all.size(), 200u);
}

TEST_F(Posix, ABusyMountIsDetachedLazilyAndEndsWithTheLastFile) {
  const int file = ::open(path("a").c_str(), O_CREAT | O_RDWR, 0600);
  EXPECT_EQ(unmount(path(), false).code(), Code::kWouldBlock);
  ASSERT_TRUE(unmount(path(), true).ok());
  EXPECT_FALSE(mounted_device(path()));
  EXPECT_EQ(::write(file, "still", 5), 5);
  ::close(file);
}

TEST_F(Posix, LookupsAreForgotten) {
  for (int i = 0; i < 100; ++i)
    write_file(path(std::to_string(i)), "x");
  for (int i = 0; i < 100; ++i)
    fs::remove(path(std::to_string(i)));
  EXPECT_TRUE(eventually(
      [&] { return mounted_->on_loop([&] { return mounted_->file_system->live_lookups(); }) == 0; }));
}

}  // namespace
}  // namespace kintsugi::mount
