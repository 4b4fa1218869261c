#include "common/runtime/production/uring_disk.h"

#include <cerrno>
#include <fstream>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/hash.h"
#include "common/log/log.h"
#include "common/runtime/production/uring_file.h"

namespace kintsugi::runtime {

namespace {

constexpr mode_t kDirectoryMode = 0750;
constexpr mode_t kLockFileMode = 0640;

int open_flags(OpenMode mode) {
  switch (mode) {
    case OpenMode::kRead: return O_RDONLY | O_CLOEXEC;
    case OpenMode::kReadWrite: return O_RDWR | O_CLOEXEC;
    case OpenMode::kCreate: return O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL;
  }
  return O_RDONLY | O_CLOEXEC;
}

/// A number that no other machine has, and this one only until it starts again.
uint64_t this_machine() {
  static const uint64_t machine = [] {
    std::string id;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
    return mix_bits(hash_name(id));
  }();
  return machine;
}

Status to_status(int result, std::string_view operation, const std::string& path) {
  if (result >= 0) return {};
  return status_from_errno(-result, fmt::format("{} {}", operation, path));
}

/// An open file with a lock of the kernel on it, which ends with the descriptor, however the process ends.
class HeldLock final : public FileLock {
 public:
  explicit HeldLock(int fd) : fd_(fd) {}
  ~HeldLock() override { ::close(fd_); }
  HeldLock(const HeldLock&) = delete;

 private:
  const int fd_;
};

}  // namespace

UringDisk::UringDisk(asio::io_context& io) : queue_(UringQueue::create(io)) {}

UringDisk::~UringDisk() {
  queue_->shut_down();
}

asio::awaitable<Result<std::unique_ptr<File>>> UringDisk::open(std::string path, OpenMode mode) {
  DiskCall call{.kind = DiskCall::Kind::kOpen, .path = path.c_str(), .flags = open_flags(mode) | O_DIRECT};
  bool direct = true;
  int fd = co_await queue_->run(call);
  if (fd == -EINVAL) {
    // No O_DIRECT here. Some kernels find that out only after they have created the file.
    direct = false;
    call.flags &= ~(O_DIRECT | O_EXCL);
    fd = co_await queue_->run(call);
  }
  if (fd < 0) co_return to_status(fd, "open", path);
  co_return std::make_unique<UringFile>(queue_, fd, direct, std::move(path));
}

asio::awaitable<Status> UringDisk::rename(std::string from, std::string to) {
  DiskCall call{.kind = DiskCall::Kind::kRename, .path = from.c_str(), .to_path = to.c_str()};
  int result = co_await queue_->run(call);
  co_return to_status(result, "rename " + from + " to", to);
}

asio::awaitable<Status> UringDisk::remove(std::string path) {
  DiskCall call{.kind = DiskCall::Kind::kUnlink, .path = path.c_str()};
  int result = co_await queue_->run(call);
  if (result == -EISDIR) {
    call.flags = AT_REMOVEDIR;
    result = co_await queue_->run(call);
  }
  co_return to_status(result, "remove", path);
}

// Directories are made, listed and measured, and files are locked, in place: these calls are rare and do not wait for
// the disk for long.

asio::awaitable<Status> UringDisk::make_directory(std::string path) {
  KINTSUGI_ASSERT(path.starts_with('/'));
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    std::string prefix = path.substr(0, end);
    if (mkdir(prefix.c_str(), kDirectoryMode) != 0) {
      int error = errno;
      struct stat attributes;
      // A parent that exists may be on a filesystem where mkdir fails in its own way (read-only, no permission).
      bool exists = stat(prefix.c_str(), &attributes) == 0;
      if (exists && !S_ISDIR(attributes.st_mode)) error = ENOTDIR;
      if (!exists || !S_ISDIR(attributes.st_mode)) co_return to_status(-error, "make directory", prefix);
    }
    if (end == std::string::npos) co_return Status{};
  }
}

asio::awaitable<Status> UringDisk::sync_directory(std::string path) {
  DiskCall open{
      .kind = DiskCall::Kind::kOpen, .path = path.c_str(), .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC};
  int fd = co_await queue_->run(open);
  if (fd < 0) co_return to_status(fd, "open directory", path);
  DiskCall sync{.kind = DiskCall::Kind::kSync, .fd = fd};
  int result = co_await queue_->run(sync);
  queue_->close_later(fd);
  co_return to_status(result, "sync directory", path);
}

asio::awaitable<Result<std::vector<std::string>>> UringDisk::list(std::string path) {
  DIR* directory = opendir(path.c_str());
  if (!directory) co_return to_status(-errno, "list", path);
  std::vector<std::string> names;
  errno = 0;
  while (dirent* entry = readdir(directory)) {
    std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  int error = errno;
  closedir(directory);
  if (error != 0) co_return to_status(-error, "list", path);
  std::sort(names.begin(), names.end());
  co_return names;
}

asio::awaitable<Result<DiskSpace>> UringDisk::space(std::string path) {
  struct statvfs filesystem;
  if (statvfs(path.c_str(), &filesystem) != 0) co_return to_status(-errno, "measure the filesystem of", path);
  KINTSUGI_CO_ASSIGN(const FileAttributes directory, co_await attributes(path));
  co_return DiskSpace{uint64_t{filesystem.f_blocks} * filesystem.f_frsize,
                      uint64_t{filesystem.f_bavail} * filesystem.f_frsize,
                      mix_bits(this_machine() ^ mix_bits(directory.identity.device))};
}

asio::awaitable<Result<FileAttributes>> UringDisk::attributes(std::string path) {
  struct statx found{};
  const DiskCall call{.kind = DiskCall::Kind::kStat, .path = path.c_str(), .found = &found};
  const int result = co_await queue_->run(call);
  if (result < 0) co_return to_status(result, "look at", path);
  co_return FileAttributes{
      .identity = {.device = makedev(found.stx_dev_major, found.stx_dev_minor), .inode = found.stx_ino},
      .bytes = found.stx_size};
}

asio::awaitable<Result<std::unique_ptr<FileLock>>> UringDisk::lock(std::string path) {
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kLockFileMode);
  // A filesystem that became read-only still serves what it has.
  if (fd < 0 && errno == EROFS) fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) co_return to_status(-errno, "open", path);
  auto held = std::make_unique<HeldLock>(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) co_return Status{Code::kConflict, path + " is locked already"};
    co_return to_status(-errno, "lock", path);
  }
  co_return std::unique_ptr<FileLock>(std::move(held));
}

}  // namespace kintsugi::runtime
