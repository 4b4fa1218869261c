#include "client/cli/local_source.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/cli/file_work.h"
#include "common/posix/file_time.h"

namespace kintsugi::cli {
namespace {

/// Reads of at most so many bytes are done at once where the page cache has them: to visit a thread costs more.
constexpr uint64_t kQuickBytes = 64 << 10;
/// What st_blocks counts.
constexpr uint64_t kStatBlock = 512;
/// Ranges of a file with holes: a commit can name so many extents, and stripes that end within them. What comes after
/// them is data.
constexpr size_t kMaxDataRanges = 20'000;

/// Waits until `fd` can be read without waiting. False, and errno is ECANCELED, when `cancelled` can be read first.
bool wait_for_bytes(int fd, int cancelled) {
  pollfd wanted[] = {{.fd = fd, .events = POLLIN, .revents = 0},
                     {.fd = cancelled, .events = POLLIN, .revents = 0}};
  while (::poll(wanted, std::size(wanted), -1) < 0) {
    if (errno != EINTR) return false;
  }
  if (wanted[1].revents == 0) return true;
  errno = ECANCELED;
  return false;
}

}  // namespace

Result<std::unique_ptr<LocalSource>> LocalSource::open(const std::string& path, asio::thread_pool& threads,
                                                       int cancelled) {
  std::unique_ptr<LocalSource> source(new LocalSource(threads, cancelled));
  source->path_ = path == "-" ? "standard input" : path;
  source->file_ =
      Descriptor(path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (source->file_.get() < 0) return status_from_errno(errno, path);
  struct stat attributes{};
  if (::fstat(source->file_.get(), &attributes) != 0) return status_from_errno(errno, path);
  if (S_ISDIR(attributes.st_mode)) return Status{Code::kIsDirectory, path + " is a directory"};
  if (path != "-") {
    // A pipe or a device may have taken the place of the file that was there when the transfer was planned.
    if (!S_ISREG(attributes.st_mode)) return Status{Code::kInvalidArgument, path + " is not a regular file"};
    KINTSUGI_TRY(source->take_regular(attributes));
  }
  return source;
}

Status LocalSource::take_regular(const struct stat& attributes) {
  mode_ = attributes.st_mode & 07777;
  modified_ns_ = posix::ns_since_1970({attributes.st_mtim.tv_sec, attributes.st_mtim.tv_nsec});
  if (modified_ns_ == 0) modified_ns_ = 1;  // 0 would mean the current time
  if (attributes.st_size == 0) {
    // Files of /proc, and of some network file systems, have bytes all the same.
    std::byte first{};
    const ssize_t got = ::pread(file_.get(), &first, sizeof first, 0);
    if (got < 0) return status_from_errno(errno, path_);
    if (got > 0) return {};
  }
  size_ = static_cast<uint64_t>(attributes.st_size);
  find_holes(static_cast<uint64_t>(attributes.st_blocks) * kStatBlock);
  if (attributes.st_size > static_cast<off_t>(kQuickBytes))
    (void)::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return {};
}

std::optional<uint64_t> LocalSource::size() const {
  struct stat attributes{};
  if (!size_ || ::fstat(file_.get(), &attributes) != 0) return size_;
  return std::max(*size_, static_cast<uint64_t>(attributes.st_size));
}

void LocalSource::find_holes(uint64_t allocated) {
  if (allocated >= *size_) return;
  std::vector<client::DataRange> ranges;
  const auto size = static_cast<off_t>(*size_);
  for (off_t at = 0; at < size;) {
    const off_t begin = ::lseek(file_.get(), at, SEEK_DATA);
    if (begin < 0 && errno != ENXIO) return;  // the file system does not support SEEK_DATA
    if (begin < 0 || begin >= size) break;
    const bool is_last = ranges.size() + 1 == kMaxDataRanges;
    const off_t end = is_last ? size : ::lseek(file_.get(), begin, SEEK_HOLE);
    if (end <= begin) return;
    at = std::min(end, size);
    ranges.push_back({static_cast<uint64_t>(begin), static_cast<uint64_t>(at)});
  }
  const bool is_whole = ranges.size() == 1 && ranges[0].begin == 0 && ranges[0].end == *size_;
  if (is_whole) return;
  if (ranges.empty() || ranges.back().end < *size_) ranges.push_back({*size_, *size_});
  data_ = std::move(ranges);
}

Result<size_t> LocalSource::read_now(uint64_t offset, std::span<const std::span<std::byte>> into) {
  const int fd = file_.get();
  if (size_) {
    return move_all(path_, into, [fd, offset](iovec* to, int count, size_t done) {
      return ::preadv(fd, to, count, static_cast<off_t>(offset + done));
    });
  }
  return move_all(path_, into, [this, fd](iovec* to, int count, size_t) {
    return wait_for_bytes(fd, cancelled_) ? ::readv(fd, to, count) : -1;
  });
}

bool LocalSource::read_cached(uint64_t offset, std::span<const std::span<std::byte>> into) const {
  if (!size_ || *size_ > kQuickBytes || into.size() != 1) return false;
  const iovec to{into.front().data(), into.front().size()};
  return ::preadv2(file_.get(), &to, 1, static_cast<off_t>(offset), RWF_NOWAIT) ==
         static_cast<ssize_t>(to.iov_len);
}

asio::awaitable<Result<size_t>> LocalSource::read(uint64_t offset,
                                                  std::span<const std::span<std::byte>> into) {
  if (read_cached(offset, into)) co_return into.front().size();
  auto work = [this, offset, into] { return read_now(offset, into); };
  co_return co_await on_thread<Result<size_t>>(threads_, work);
}

}  // namespace kintsugi::cli
