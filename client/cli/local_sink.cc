#include "client/cli/local_sink.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <random>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/broken_pipe.h"
#include "client/cli/file_work.h"
#include "common/posix/file_time.h"
#include "common/runtime/disk.h"

namespace kintsugi::cli {
namespace {

/// Writes of at least so many bytes bypass the page cache: copying into fresh pages is most of what a large get costs.
constexpr uint64_t kDirectBytes = 4 << 20;
/// Nobody else reads a file before it has its mode.
constexpr mode_t kPrivate = 0600;

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// The name of an open file that has no other.
std::string path_of(const Descriptor& file) {
  return fmt::format("/proc/self/fd/{}", file.get());
}

/// Gives a file that has no name one; errno says why not.
bool give_name(const Descriptor& file, const std::string& path) {
  return ::linkat(AT_FDCWD, path_of(file).c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

/// Temporary names are not made of the target's, which may be as long as a name can be.
constexpr std::string_view kTemporaryName = ".kintsugi-";
constexpr std::string_view kTemporaryLetters = "XXXXXX";

/// Gives a file that has no name a temporary one, and returns it; empty, and errno says why not.
std::string give_temporary_name(const Descriptor& file, const std::string& directory) {
  static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  static constexpr int kMostTries = 100;
  std::random_device random;
  for (int i = 0; i < kMostTries; ++i) {
    std::string path = fmt::format("{}/{}", directory, kTemporaryName);
    for (size_t letter = 0; letter < kTemporaryLetters.size(); ++letter)
      path += kLetters[random() % kLetters.size()];
    if (give_name(file, path)) return path;
    if (errno != EEXIST) break;
  }
  return {};
}

/// The error of a file that could not be put at `path`, by errno.
Status refusal(const std::string& path) {
  if (errno == ENOENT)
    return {Code::kNotFound, "the local directory " + directory_of(path) + " does not exist"};
  if (errno == EEXIST) return {Code::kAlreadyExists, path + " exists already (--replace replaces it)"};
  return status_from_errno(errno, path);
}

}  // namespace

Result<std::unique_ptr<LocalSink>> LocalSink::create(const std::string& path, uint64_t bytes, bool replace,
                                                     asio::thread_pool& threads) {
  std::unique_ptr<LocalSink> sink(new LocalSink(threads));
  sink->path_ = path;
  sink->replace_ = replace;
  if (bytes <= kKeptBytes) return sink;
  struct stat attributes{};
  if (::lstat(path.c_str(), &attributes) == 0 && !replace) {
    return Status{Code::kAlreadyExists, path + " exists already (--replace replaces it)"};
  }
  KINTSUGI_TRY(sink->open_file());
  return sink;
}

/// Makes the file of a sink that has kept all bytes so far, and writes them.
Status LocalSink::open_file_for_kept() {
  KINTSUGI_TRY(open_file());
  const std::array<std::span<const std::byte>, 1> all{std::span(kept_)};
  KINTSUGI_TRY(write_now(0, all));
  kept_ = {};
  return {};
}

Status LocalSink::open_file() {
  const std::string directory = directory_of(path_);
  file_ = Descriptor(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kPrivate));
  // Its later name comes by way of /proc, which may be missing in a container.
  if (file_.get() >= 0 && ::access(path_of(file_).c_str(), F_OK) == 0) return {};
  std::string name = fmt::format("{}/{}{}", directory, kTemporaryName, kTemporaryLetters);
  file_ = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (file_.get() < 0) return refusal(path_);
  temporary_path_ = name;
  return {};
}

std::unique_ptr<LocalSink> LocalSink::standard_output(asio::thread_pool& threads) {
  std::unique_ptr<LocalSink> sink(new LocalSink(threads));
  sink->file_ = Descriptor(STDOUT_FILENO);
  return sink;
}

LocalSink::~LocalSink() {
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
}

void LocalSink::choose_direct(uint64_t offset, std::span<const std::span<const std::byte>> from) {
  uint64_t bytes = 0, misaligned = offset;
  for (const std::span<const std::byte> range : from) {
    bytes += range.size();
    misaligned |= range.size() | reinterpret_cast<uintptr_t>(range.data());
  }
  const bool direct = bytes >= kDirectBytes && misaligned % runtime::kDiskAlignment == 0;
  if (direct == direct_) return;
  const int flags = ::fcntl(file_.get(), F_GETFL);
  // A file system that knows no direct writes refuses the flag, and the write goes through the cache.
  if (::fcntl(file_.get(), F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0) direct_ = direct;
}

Status LocalSink::write_now(uint64_t offset, std::span<const std::span<const std::byte>> from) {
  const int fd = file_.get();
  const bool to_file = !path_.empty();
  uint64_t end = offset;
  for (const std::span<const std::byte> range : from)
    end += range.size();
  end_ = std::max(end_, end);
  if (to_file) choose_direct(offset, from);
  auto moved = move_all(to_file ? path_ : "standard output", from, [&](iovec* what, int count, size_t done) {
    if (to_file) return ::pwritev(fd, what, count, static_cast<off_t>(offset + done));
    const ssize_t written = ::writev(fd, what, count);
    if (written < 0 && errno == EPIPE) end_by_broken_pipe();
    return written;
  });
  return moved ? Status{} : moved.error();
}

asio::awaitable<Status> LocalSink::write(uint64_t offset, std::span<const std::span<const std::byte>> from) {
  const bool opened = file_.get() >= 0;
  uint64_t bytes = 0;
  for (const std::span<const std::byte> range : from)
    bytes += range.size();
  if (!opened && kept_.size() + bytes <= kKeptBytes) {
    for (const std::span<const std::byte> range : from)
      kept_.insert(kept_.end(), range.begin(), range.end());
    co_return Status{};
  }
  auto work = [this, opened, offset, from] {
    if (!opened) KINTSUGI_TRY(open_file_for_kept());
    return write_now(offset, from);
  };
  co_return co_await on_thread<Status>(threads_, work);
}

asio::awaitable<Status> LocalSink::hole(uint64_t offset, uint64_t length) {
  const bool stays_small = file_.get() < 0 && kept_.size() + length <= kKeptBytes;
  if (path_.empty() || stays_small) co_return co_await Sink::hole(offset, length);
  if (file_.get() < 0) {
    auto work = [this] { return open_file_for_kept(); };
    KINTSUGI_CO_TRY(co_await on_thread<Status>(threads_, work));
  }
  end_ = std::max(end_, offset + length);
  co_return Status{};
}

asio::awaitable<Status> LocalSink::finish(uint32_t mode, int64_t modified_ns) {
  auto work = [this, mode, modified_ns] { return finish_now(mode, modified_ns); };
  co_return co_await on_thread<Status>(threads_, work);
}

Status LocalSink::finish_now(uint32_t mode, int64_t modified_ns) {
  if (file_.get() < 0) KINTSUGI_TRY(open_file_for_kept());
  const auto [seconds, nanoseconds] = posix::file_time(modified_ns);
  const timespec modified{seconds, nanoseconds};
  const timespec times[2] = {modified, modified};
  // A hole at the end is made by the size alone.
  if (::ftruncate(file_.get(), static_cast<off_t>(end_)) != 0 || ::fchmod(file_.get(), mode & 07777) != 0 ||
      ::futimens(file_.get(), times) != 0) {
    return status_from_errno(errno, path_);
  }
  // A write that was delayed may fail only when a descriptor is closed. A file without a name needs its own for a
  // while.
  Descriptor last = temporary_path_.empty() ? Descriptor(::dup(file_.get())) : std::move(file_);
  KINTSUGI_TRY(last.close().with_context(path_));
  return put_in_place();
}

Status LocalSink::put_in_place() {
  if (temporary_path_.empty()) {
    if (give_name(file_, path_)) return {};
    if (errno != EEXIST || !replace_) return refusal(path_);
    // Only a rename replaces what is there, and for that the file needs another name, if only for a moment.
    temporary_path_ = give_temporary_name(file_, directory_of(path_));
    if (temporary_path_.empty()) return refusal(path_);
  }
  // Somebody may have made the target since create() looked, so without --replace the rename itself must not replace.
  int moved = replace_
                  ? ::rename(temporary_path_.c_str(), path_.c_str())
                  : ::renameat2(AT_FDCWD, temporary_path_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE);
  // A file system without such a rename says EINVAL; there create()'s look has to do.
  if (moved != 0 && errno == EINVAL && !replace_) moved = ::rename(temporary_path_.c_str(), path_.c_str());
  if (moved != 0) return refusal(path_);
  temporary_path_.clear();
  return {};
}

}  // namespace kintsugi::cli
