#include "common/runtime/production/uring_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/assert.h"

namespace kintsugi::runtime {

namespace {

constexpr int kMaxAttempts = 16;               // attempts when a call returns EAGAIN or EINTR
constexpr unsigned kPauseMicroseconds = 2000;  // pause after EAGAIN
// Largest transfer of one call; the kernel's own limit is just below 2 GiB.
constexpr size_t kMaxTransferBytes = 1 << 30;

bool is_aligned(uint64_t offset, const void* data, size_t bytes) {
  return offset % kDiskAlignment == 0 && bytes % kDiskAlignment == 0 &&
         reinterpret_cast<uintptr_t>(data) % kDiskAlignment == 0;
}

/// The medium cannot be read there. With O_DIRECT the block layer's own numbers come up, and not only EIO.
bool is_medium_error(int result) {
  return result == -EIO || result == -ENODATA || result == -EILSEQ || result == -EBADMSG ||
         result == -EUCLEAN;
}

}  // namespace

UringFile::UringFile(std::shared_ptr<DiskWorker> worker, int fd, bool direct, std::string path)
    : worker_(std::move(worker)), fd_(fd), direct_(direct), path_(std::move(path)) {}

UringFile::~UringFile() {
  worker_->queue->close_later(fd_);
}

asio::awaitable<Result<size_t>> UringFile::read(uint64_t offset, std::span<std::byte> into) {
  KINTSUGI_ASSERT(is_aligned(offset, into.data(), into.size()));
  size_t done = 0;
  while (done < into.size()) {
    DiskCall call{.kind = DiskCall::Kind::kRead,
                  .fd = fd_,
                  .data = into.data() + done,
                  .bytes = static_cast<uint32_t>(std::min(into.size() - done, kMaxTransferBytes)),
                  .offset = offset + done};
    int count = co_await run(call);
    // What lies there cannot be read; the disk may be well elsewhere.
    if (is_medium_error(count)) co_return Status{Code::kMediumError, failure(count, "read").message()};
    if (count < 0) co_return failure(count, "read");
    done += static_cast<size_t>(count);
    // This is the end of the file: behind an odd size O_DIRECT could not even ask.
    if (count == 0 || (direct_ && done % kDiskAlignment != 0)) break;
  }
  co_return done;
}

asio::awaitable<Status> UringFile::write(uint64_t offset, std::span<const std::byte> from) {
  KINTSUGI_ASSERT(is_aligned(offset, from.data(), from.size()));
  size_t done = 0;
  while (done < from.size()) {
    DiskCall call{.kind = DiskCall::Kind::kWrite,
                  .fd = fd_,
                  .data = const_cast<std::byte*>(from.data()) + done,
                  .bytes = static_cast<uint32_t>(std::min(from.size() - done, kMaxTransferBytes)),
                  .offset = offset + done};
    int count = co_await run(call);
    if (count < 0) co_return failure(count, "write");
    // A partly written block is written again with the rest.
    auto progress = static_cast<size_t>(count);
    if (progress < call.bytes) progress -= progress % kDiskAlignment;
    if (progress == 0) co_return Status{Code::kIoError, "write " + path_ + ": no progress"};
    done += progress;
  }
  co_return Status{};
}

asio::awaitable<Status> UringFile::sync() {
  DiskCall call{.kind = DiskCall::Kind::kSyncData, .fd = fd_};
  int result = co_await run(call);
  co_return failure(result, "sync");
}

asio::awaitable<Status> UringFile::allocate(uint64_t bytes) {
  if (bytes == 0) co_return Status{};
  const int fits = co_await check_space(bytes);
  if (fits < 0) co_return failure(fits, "allocate");
  DiskCall call{.kind = DiskCall::Kind::kAllocate, .fd = fd_, .offset = bytes};
  int result = co_await run(call);
  if (result == -EOPNOTSUPP) {  // no reservation on this filesystem: at least the size is promised
    KINTSUGI_CO_ASSIGN(uint64_t current, co_await size());
    if (current >= bytes) co_return Status{};
    Status truncated = co_await truncate(bytes);
    co_return truncated;
  }
  co_return failure(result, "allocate");
}

asio::awaitable<int> UringFile::check_space(uint64_t bytes) {
  return worker_->thread.run([fd = fd_, bytes] {
    struct statvfs space;
    struct stat attributes;
    if (fstatvfs(fd, &space) != 0 || fstat(fd, &attributes) != 0) return -errno;
    const uint64_t has = static_cast<uint64_t>(attributes.st_blocks) * 512;
    return bytes > has + uint64_t{space.f_bavail} * space.f_frsize ? -ENOSPC : 0;
  });
}

asio::awaitable<Status> UringFile::truncate(uint64_t bytes) {
  const int result = co_await worker_->thread.run(
      [fd = fd_, bytes] { return ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : -errno; });
  co_return failure(result, "truncate");
}

asio::awaitable<Result<uint64_t>> UringFile::size() {
  // In place: what the kernel knows of an open file it tells without asking the disk.
  struct statx found{};
  if (statx(fd_, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE, &found) != 0)
    co_return failure(-errno, "stat");
  co_return found.stx_size;
}

asio::awaitable<int> UringFile::run(DiskCall call) {
  int result = 0;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    result = co_await worker_->queue->run(call);
    if (result != -EAGAIN && result != -EINTR) break;
    // The kernel is short of something, such as memory: at once it still would be.
    if (result == -EAGAIN) {
      (void)co_await worker_->thread.run([] {
        usleep(kPauseMicroseconds);
        return 0;
      });
    }
  }
  co_return result;
}

Status UringFile::failure(int negative_errno, std::string_view operation) const {
  if (negative_errno >= 0) return {};
  // A disk that timed out has given an error; that nobody waits for longer is another matter.
  const int error = negative_errno == -ETIMEDOUT ? EIO : -negative_errno;
  return status_from_errno(error, fmt::format("{} {}", operation, path_));
}

}  // namespace kintsugi::runtime
