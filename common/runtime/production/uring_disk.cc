#include "common/runtime/production/uring_disk.h"

#include <algorithm>
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
constexpr fsfilcnt_t kFewestInodes = 256;  ///< free inodes below which a file system counts as full
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

UringDisk::UringDisk(asio::io_context& io)
    : io_(io), rest_(std::make_shared<DiskWorker>(io, UringQueue::Limits{})) {}

UringDisk::~UringDisk() {
  rest_->shut_down();
  for (const Separate& disk : separate_)
    disk.worker->shut_down();
}

void UringDisk::separate(const std::vector<std::string>& roots) {
  KINTSUGI_ASSERT(separate_.empty());
  // Every disk but one may hang with all of its calls, and there are still threads for the last one's.
  const auto threads = static_cast<unsigned>(kInFlightEach * roots.size());
  for (const std::string& root : roots)
    separate_.push_back(
        {root, std::make_shared<DiskWorker>(
                   io_, UringQueue::Limits{kInFlightEach, std::max(threads, 2 * kInFlightEach)})});
}

const std::shared_ptr<DiskWorker>& UringDisk::shared_worker_of(const std::string& path) const {
  const Separate* best = nullptr;
  for (const Separate& disk : separate_) {
    const bool below =
        path.starts_with(disk.root) && (path.size() == disk.root.size() || path[disk.root.size()] == '/');
    if (below && (best == nullptr || disk.root.size() > best->root.size())) best = &disk;
  }
  return best == nullptr ? rest_ : best->worker;
}

asio::awaitable<Result<std::unique_ptr<File>>> UringDisk::open(std::string path, OpenMode mode) {
  const std::shared_ptr<DiskWorker> worker = shared_worker_of(path);
  DiskCall call{.kind = DiskCall::Kind::kOpen, .path = path.c_str(), .flags = open_flags(mode) | O_DIRECT};
  bool direct = true;
  int fd = co_await worker->queue->run(call);
  if (fd == -EINVAL) {
    // No O_DIRECT here. Some kernels find that out only after they have created the file.
    direct = false;
    call.flags &= ~(O_DIRECT | O_EXCL);
    fd = co_await worker->queue->run(call);
  }
  if (fd < 0) co_return to_status(fd, "open", path);
  co_return std::make_unique<UringFile>(worker, fd, direct, std::move(path));
}

asio::awaitable<Status> UringDisk::rename(std::string from, std::string to) {
  DiskCall call{.kind = DiskCall::Kind::kRename, .path = from.c_str(), .to_path = to.c_str()};
  int result = co_await worker_of(from).queue->run(call);
  co_return to_status(result, "rename " + from + " to", to);
}

asio::awaitable<Status> UringDisk::remove(std::string path) {
  UringQueue& queue = *worker_of(path).queue;
  DiskCall call{.kind = DiskCall::Kind::kUnlink, .path = path.c_str()};
  int result = co_await queue.run(call);
  if (result == -EISDIR) {
    call.flags = AT_REMOVEDIR;
    result = co_await queue.run(call);
  }
  co_return to_status(result, "remove", path);
}

namespace {

/// Makes the directory and its parents. Names the one that could not be made in `failed`.
int make_directories(const std::string& path, std::string& failed) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    if (mkdir(prefix.c_str(), kDirectoryMode) != 0) {
      int error = errno;
      struct stat attributes;
      // A parent that exists may be on a filesystem where mkdir fails in its own way (read-only, no permission).
      const bool exists = stat(prefix.c_str(), &attributes) == 0;
      if (exists && !S_ISDIR(attributes.st_mode)) error = ENOTDIR;
      if (!exists || !S_ISDIR(attributes.st_mode)) {
        failed = prefix;
        return -error;
      }
    }
    if (end == std::string::npos) return 0;
  }
}

int list_names(const std::string& path, std::vector<std::string>& names) {
  DIR* directory = opendir(path.c_str());
  if (!directory) return -errno;
  errno = 0;
  while (dirent* entry = readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const int error = errno;
  closedir(directory);
  std::sort(names.begin(), names.end());
  return -error;
}

/// Returns the descriptor that has the lock; -EWOULDBLOCK: somebody else has it.
int open_locked(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kLockFileMode);
  // A filesystem that became read-only still serves what it has.
  if (fd < 0 && errno == EROFS) fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int error = errno;
  ::close(fd);
  return -error;
}

}  // namespace

asio::awaitable<Status> UringDisk::make_directory(std::string path) {
  KINTSUGI_ASSERT(path.starts_with('/'));
  auto failed = std::make_shared<std::string>();
  const int result =
      co_await worker_of(path).thread.run([path, failed] { return make_directories(path, *failed); });
  co_return to_status(result, "make directory", *failed);
}

asio::awaitable<Status> UringDisk::sync_directory(std::string path) {
  const std::shared_ptr<UringQueue> queue = worker_of(path).queue;
  DiskCall open{
      .kind = DiskCall::Kind::kOpen, .path = path.c_str(), .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC};
  int fd = co_await queue->run(open);
  if (fd < 0) co_return to_status(fd, "open directory", path);
  DiskCall sync{.kind = DiskCall::Kind::kSync, .fd = fd};
  int result = co_await queue->run(sync);
  queue->close_later(fd);
  co_return to_status(result, "sync directory", path);
}

asio::awaitable<Result<std::vector<std::string>>> UringDisk::list(std::string path) {
  auto names = std::make_shared<std::vector<std::string>>();
  const int result = co_await worker_of(path).thread.run([path, names] { return list_names(path, *names); });
  if (result < 0) co_return to_status(result, "list", path);
  co_return std::move(*names);
}

asio::awaitable<Result<DiskSpace>> UringDisk::space(std::string path) {
  auto found = std::make_shared<struct statvfs>();
  const int result = co_await worker_of(path).thread.run(
      [path, found] { return statvfs(path.c_str(), found.get()) == 0 ? 0 : -errno; });
  if (result < 0) co_return to_status(result, "measure the filesystem of", path);
  KINTSUGI_CO_ASSIGN(const FileAttributes directory, co_await attributes(path));
  // Without inodes for new files there is no room, however many blocks are free. Some file systems report no inodes at
  // all.
  const bool no_inodes = found->f_files > 0 && found->f_favail < kFewestInodes;
  co_return DiskSpace{uint64_t{found->f_blocks} * found->f_frsize,
                      no_inodes ? 0 : uint64_t{found->f_bavail} * found->f_frsize,
                      mix_bits(this_machine() ^ mix_bits(directory.identity.device))};
}

asio::awaitable<Result<FileAttributes>> UringDisk::attributes(std::string path) {
  struct statx found{};
  const DiskCall call{.kind = DiskCall::Kind::kStat, .path = path.c_str(), .found = &found};
  const int result = co_await worker_of(path).queue->run(call);
  if (result < 0) co_return to_status(result, "look at", path);
  co_return FileAttributes{
      .identity = {.device = makedev(found.stx_dev_major, found.stx_dev_minor), .inode = found.stx_ino},
      .bytes = found.stx_size};
}

asio::awaitable<Result<std::unique_ptr<FileLock>>> UringDisk::lock(std::string path) {
  const int fd = co_await worker_of(path).thread.run([path] { return open_locked(path); });
  if (fd == -EWOULDBLOCK) co_return Status{Code::kConflict, path + " is locked already"};
  if (fd < 0) co_return to_status(fd, "lock", path);
  co_return std::make_unique<HeldLock>(fd);
}

}  // namespace kintsugi::runtime
