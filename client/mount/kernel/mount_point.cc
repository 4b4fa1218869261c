#include "client/mount/kernel/mount_point.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/mount/kernel/passed_descriptor.h"
#include "common/log/log.h"

namespace kintsugi::mount {

namespace {

constexpr const char* kHelper = "fusermount3";
constexpr const char* kType = "kintsugi";
constexpr int kExecFailed = 127;

Status check_directory(const std::string& directory) {
  struct stat found{};
  struct statvfs space{};  // reveals a dead file system, where stat() may answer from the cache
  if (::stat(directory.c_str(), &found) != 0 || ::statvfs(directory.c_str(), &space) != 0) {
    if (errno == ENOTCONN || errno == ECONNABORTED) {
      return {Code::kStale,
              fmt::format("{}: a mount that died is still there (Transport endpoint is not connected): "
                          "detach it with `umount -l {}` or `fusermount3 -u -z {}`",
                          directory, directory, directory)};
    }
    return status_from_errno(errno, directory);
  }
  if (!S_ISDIR(found.st_mode)) return {Code::kNotDirectory, fmt::format("{} is not a directory", directory)};
  return {};
}

Result<int> open_device() {
  const int device = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (device >= 0) return device;
  if (errno == ENOENT || errno == ENODEV || errno == ENXIO) {
    return Status{Code::kNotFound,
                  "there is no /dev/fuse: load the kernel module with `modprobe fuse`, or give the container "
                  "the device"};
  }
  return status_from_errno(errno, "open /dev/fuse");
}

Result<int> mount_as_root(const std::string& directory, const MountOptions& options) {
  KINTSUGI_ASSIGN(const int device, open_device());
  std::string data = fmt::format("fd={},rootmode=40000,user_id={},group_id={},max_read={}", device,
                                 ::getuid(), ::getgid(), options.max_read_bytes);
  if (options.allow_other) data += ",allow_other";
  if (options.default_permissions) data += ",default_permissions";
  const unsigned long flags = (options.read_only ? MS_RDONLY : 0ul) | (options.no_suid ? MS_NOSUID : 0ul) |
                              (options.no_dev ? MS_NODEV : 0ul) | (options.no_exec ? MS_NOEXEC : 0ul);
  const std::string type = std::string("fuse.") + kType;
  if (::mount(options.source.c_str(), directory.c_str(), type.c_str(), flags, data.c_str()) == 0)
    return device;
  const int error = errno;
  ::close(device);
  if (error == EPERM) {
    return Status{Code::kNotPermitted,
                  fmt::format("mount at {}: not permitted (CAP_SYS_ADMIN is needed, which "
                              "containers do not have by default)",
                              directory)};
  }
  if (error == ENODEV) {
    return Status{Code::kNotFound, "the kernel has no FUSE file system: load it with `modprobe fuse`"};
  }
  return status_from_errno(error, fmt::format("mount at {}", directory));
}

// fsname and such stand in a list with commas.
std::string escaped(const std::string& value) {
  std::string result;
  for (const char c : value) {
    if (c == ',' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

/// Runs the helper; `socket` (or -1) is what it sends the descriptor over. Returns its exit status.
Result<int> run_helper(std::vector<std::string> arguments, int socket) {
  std::vector<char*> argv;
  for (std::string& argument : arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string number = std::to_string(socket);
  const pid_t child = ::fork();
  if (child < 0) return status_from_errno(errno, "fork");
  if (child == 0) {
    if (socket >= 0) {
      ::fcntl(socket, F_SETFD, 0);
      ::setenv("_FUSE_COMMFD", number.c_str(), 1);
    }
    ::execvp(argv[0], argv.data());
    ::_exit(kExecFailed);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return status_from_errno(errno, "waitpid");
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExecFailed) {
    return Status{Code::kNotFound,
                  fmt::format("{} is not there, which users need to mount: install the package fuse3, "
                              "or mount as root",
                              kHelper)};
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

Result<int> mount_as_user(const std::string& directory, const MountOptions& options) {
  std::string list =
      fmt::format("fsname={},subtype={},max_read={}", escaped(options.source), kType, options.max_read_bytes);
  if (options.allow_other) list += ",allow_other";
  if (options.default_permissions) list += ",default_permissions";
  if (options.read_only) list += ",ro";
  if (options.no_exec) list += ",noexec";
  // nosuid and nodev are what the helper sets by itself for users.
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return status_from_errno(errno, "socketpair");
  auto ran = run_helper({kHelper, "-o", list, "--", directory}, ends[1]);
  ::close(ends[1]);
  Result<int> device = Status{Code::kIoError, ""};
  if (!ran) {
    device = ran.error();
  } else if (*ran != 0) {
    device = Status{Code::kNotPermitted,
                    fmt::format("{} refused to mount at {} (see its message above)", kHelper, directory)};
  } else {
    device = receive_descriptor(ends[0], kHelper);
  }
  ::close(ends[0]);
  return device;
}

std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      result += static_cast<char>((text[i + 1] - '0') << 6 | (text[i + 2] - '0') << 3 | (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

void set_read_ahead(const std::string& directory, uint32_t bytes) {
  const auto device = mounted_device(directory);
  if (!device) return;
  std::ofstream setting("/sys/class/bdi/" + *device + "/read_ahead_kb");
  setting << bytes / 1024 << std::flush;
  if (!setting)
    log::info("the kernel reads ahead as it is used to: /sys/class/bdi/{}/read_ahead_kb cannot be written",
              *device);
}

}  // namespace

Result<int> mount_at(const std::string& directory, const MountOptions& options) {
  KINTSUGI_TRY(check_directory(directory));
  const bool root = ::geteuid() == 0;
  KINTSUGI_ASSIGN(const int device,
                  root ? mount_as_root(directory, options) : mount_as_user(directory, options));
  if (root && options.read_ahead_bytes > 0) set_read_ahead(directory, options.read_ahead_bytes);
  return device;
}

Status unmount(const std::string& directory, bool lazy) {
  if (::geteuid() == 0) {
    if (::umount2(directory.c_str(), UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0) return {};
    if (errno == EBUSY)
      return {Code::kWouldBlock, fmt::format("{} is busy: files in it are open", directory)};
    return status_from_errno(errno, fmt::format("unmount {}", directory));
  }
  std::vector<std::string> arguments{kHelper, "-u"};
  if (lazy) arguments.push_back("-z");
  arguments.insert(arguments.end(), {"--", directory});
  KINTSUGI_ASSIGN(const int ran, run_helper(std::move(arguments), -1));
  if (ran == 0) return {};
  return {Code::kWouldBlock,
          fmt::format("{} did not unmount {} (see its message above)", kHelper, directory)};
}

std::optional<std::string> mounted_device(const std::string& directory) {
  char* resolved = nullptr;
  std::string wanted = directory;
  // Only the parent is resolved: to look at the mount itself would ask whoever serves it.
  const size_t slash = wanted.find_last_not_of('/');
  wanted.resize(slash == std::string::npos ? 1 : slash + 1);
  const size_t last = wanted.rfind('/');
  const std::string parent = last == std::string::npos ? "." : last == 0 ? "/" : wanted.substr(0, last);
  const std::string name = last == std::string::npos ? wanted : wanted.substr(last + 1);
  if ((resolved = ::realpath(parent.c_str(), nullptr)) != nullptr) {
    wanted = std::string(resolved) == "/" ? "/" + name : std::string(resolved) + "/" + name;
    ::free(resolved);
  }
  std::ifstream table("/proc/self/mountinfo");
  std::optional<std::string> found;
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string id, parent_id, device, root, point;
    fields >> id >> parent_id >> device >> root >> point;
    if (unescaped(point) != wanted) continue;
    const size_t type = line.find(" - fuse");
    found = type == std::string::npos ? std::nullopt : std::optional(device);
  }
  return found;
}

}  // namespace kintsugi::mount
