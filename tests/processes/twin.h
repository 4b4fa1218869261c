/// The same calls below a mount and below a directory of the local file system.
#pragma once

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "tests/processes/file_calls.h"

namespace kintsugi::processes {

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

}  // namespace kintsugi::processes
