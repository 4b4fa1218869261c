#include "common/rpc/private_file.h"

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/errno_of.h"

namespace kintsugi::rpc {
namespace {

/// A file descriptor that is closed on every way out.
struct FileDescriptor {
  int fd = -1;
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Status write_all(int fd, std::string_view text, const std::string& named) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return status_from_errno(errno, "write " + named);
    text.remove_prefix(static_cast<size_t>(n));
  }
  if (::fsync(fd) != 0) return status_from_errno(errno, "sync " + named);
  return {};
}

}  // namespace

Result<std::string> read_private_file(const std::string& path, std::string_view what, size_t most) {
  const std::string named = fmt::format("{} {}", what, path);
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return status_from_errno(errno, "open " + named);
  struct stat info{};
  if (::fstat(file.fd, &info) != 0) return status_from_errno(errno, "stat " + named);
  if (!S_ISREG(info.st_mode)) return Status{Code::kInvalidArgument, named + " is not a regular file"};
  if ((info.st_mode & 0077) != 0) {
    return Status{Code::kPermissionDenied, fmt::format("{} has mode {:04o}: others may read it (chmod 600)",
                                                       named, info.st_mode & 07777)};
  }
  std::string text(most + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(file.fd, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return status_from_errno(errno, "read " + named);
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  if (size > most) return Status{Code::kInvalidArgument, named + " is too long"};
  text.resize(size);
  return text;
}

Status check_new_private_file(const std::string& path, std::string_view what) {
  const std::string named = fmt::format("{} {}", what, path);
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0) return {Code::kAlreadyExists, named + " exists already"};
  if (errno != ENOENT) return status_from_errno(errno, "create " + named);
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (::access(parent.empty() ? "." : parent.c_str(), W_OK | X_OK) != 0)
    return status_from_errno(errno, "create " + named);
  return {};
}

Status write_private_file(const std::string& path, std::string_view what, std::string_view text) {
  const std::string named = fmt::format("{} {}", what, path);
  const FileDescriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (file.fd < 0) {
    if (errno == EEXIST) return {Code::kAlreadyExists, named + " exists already"};
    return status_from_errno(errno, "create " + named);
  }
  const Status written = write_all(file.fd, text, named);
  // One that is half-written must not be found by whoever looks next.
  if (!written.ok()) ::unlink(path.c_str());
  return written;
}

Status replace_private_file(const std::string& path, std::string_view what, std::string_view text) {
  const std::string named = fmt::format("{} {}", what, path);
  // A link stays one, and what it leads to is replaced.
  std::error_code error;
  const std::string target = std::filesystem::canonical(path, error);
  struct stat before{};
  if (error || ::stat(target.c_str(), &before) != 0)
    return status_from_errno(error ? error.value() : errno, "stat " + named);
  const std::filesystem::path whole(target);
  const std::string unfinished =
      whole.parent_path() / fmt::format(".{}.kintsugi-new", whole.filename().native());
  // A file of this name was left by an interrupted replacement, for nobody else gives files such a name.
  if (::unlink(unfinished.c_str()) != 0 && errno != ENOENT)
    return status_from_errno(errno, "remove " + unfinished);
  KINTSUGI_TRY(write_private_file(unfinished, what, text));
  const bool own = before.st_uid == ::geteuid() && before.st_gid == ::getegid();
  const bool replaced = (own || ::chown(unfinished.c_str(), before.st_uid, before.st_gid) == 0) &&
                        ::rename(unfinished.c_str(), target.c_str()) == 0;
  if (!replaced) {
    const Status failed = status_from_errno(errno, "replace " + named);
    ::unlink(unfinished.c_str());
    return failed;
  }
  const std::string directory = std::filesystem::path(target).parent_path();
  const FileDescriptor parent{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (parent.fd < 0 || ::fsync(parent.fd) != 0) return status_from_errno(errno, "sync " + directory);
  return {};
}

}  // namespace kintsugi::rpc
