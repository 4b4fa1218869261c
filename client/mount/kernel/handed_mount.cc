#include "client/mount/kernel/handed_mount.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <future>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/mount/kernel/passed_descriptor.h"
#include "client/mount/kernel/tell_systemd.h"

namespace kintsugi::mount {
namespace {

/// Whoever connects sends the descriptor at once.
constexpr timeval kSendLimit{.tv_sec = 5, .tv_usec = 0};

/// Closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  int get() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }

 private:
  const int descriptor_;
};

/// An abstract name, which needs no directory and goes with its process. REQUIRES: it is as drawn_name() makes them.
struct Address {
  explicit Address(const std::string& text) {
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path + 1, text.data(), text.size());
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }

  sockaddr_un name{};
  socklen_t bytes;
};

/// How names of sockets begin, and how many characters follow.
constexpr std::string_view kNames = "kintsugi-await-mount-";
constexpr size_t kDrawnCharacters = 32;

/// A name that nobody has, and that nobody can have taken before: any user may take any abstract name.
Result<std::string> drawn_name() {
  std::array<uint64_t, 2> drawn{};
  if (::getrandom(drawn.data(), sizeof drawn, 0) != sizeof drawn)
    return status_from_errno(errno, "draw the name of a socket");
  return fmt::format("{}{:016x}{:016x}", kNames, drawn[0], drawn[1]);
}

/// Shows the name as that of an empty memory file, which is open as long as the name is to be seen. Only the process
/// itself can put something among its open files, and only root and its own user see these, in /proc.
int show(const std::string& name) {
  // Linux 6.3 and later warn of files that might be executed, and refuse them where vm.memfd_noexec says so.
  constexpr unsigned kNeverExecuted = 8;  // MFD_NOEXEC_SEAL, which earlier headers do not have
  const int shown = ::memfd_create(name.c_str(), MFD_CLOEXEC | kNeverExecuted);
  return shown >= 0 || errno != EINVAL ? shown : ::memfd_create(name.c_str(), MFD_CLOEXEC);
}

/// The name that the process shows. kNotFound: it shows none, or is not there. kPermissionDenied: only others may look.
/// Nothing that the process shows is trusted, since it has none of the rights of this one.
Result<std::string> name_shown_by(pid_t server) {
  const std::string prefix = fmt::format("/memfd:{}", kNames), suffix = " (deleted)";
  std::error_code error;
  std::filesystem::directory_iterator files(fmt::format("/proc/{}/fd", server), error), end;
  for (; !error && files != end; files.increment(error)) {
    std::error_code closed;  // meanwhile
    const std::string file = std::filesystem::read_symlink(files->path(), closed).string();
    if (file.size() == prefix.size() + kDrawnCharacters + suffix.size() && file.starts_with(prefix) &&
        file.ends_with(suffix))
      return file.substr(prefix.size() - kNames.size(), kNames.size() + kDrawnCharacters);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    return status_from_errno(error.value(), fmt::format("look at process {}", server));
  return Status{Code::kNotFound, fmt::format("process {} does not wait for a mount (--await-mount)", server)};
}

/// Who is at the other end. Nobody: all bits are set.
ucred peer_of(int socket) {
  ucred peer{.pid = 0, .uid = UINT32_MAX, .gid = UINT32_MAX};
  socklen_t bytes = sizeof peer;
  (void)::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
  return peer;
}

/// Whether the directory answers within `limit`. Who asks a process that is stopped waits until that ends, so a thread of
/// its own asks.
bool answers(const std::string& directory, std::chrono::milliseconds limit) {
  std::promise<bool> promise;
  std::future<bool> answer = promise.get_future();
  try {
    std::thread([directory, promise = std::move(promise)]() mutable {
      struct statvfs space{};
      promise.set_value(::statvfs(directory.c_str(), &space) == 0);
    }).detach();
  } catch (const std::system_error&) {
    return false;  // there is no thread to be had
  }
  return answer.wait_for(limit) == std::future_status::ready && answer.get();
}

std::chrono::milliseconds now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::milliseconds(time.tv_nsec / 1'000'000);
}

}  // namespace

Result<int> await_mount(std::chrono::milliseconds limit) {
  const Descriptor listening(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  KINTSUGI_ASSIGN(const std::string name, drawn_name());
  const Address address(name);
  if (!listening.open() || ::bind(listening.get(), address.get(), address.bytes) != 0 ||
      ::listen(listening.get(), 8) != 0)
    return status_from_errno(errno, "wait for a mount");
  const Descriptor shown(show(name));
  if (!shown.open()) return status_from_errno(errno, "memfd_create");
  tell_systemd("READY=1\n");
  for (const auto until = now() + limit; now() < until;) {
    pollfd watched{listening.get(), POLLIN, 0};
    if (::poll(&watched, 1, static_cast<int>((until - now()).count() + 1)) <= 0) continue;
    const Descriptor maker(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const uid_t user = maker.open() ? peer_of(maker.get()).uid : UINT32_MAX;
    if (user != 0 && user != ::geteuid()) continue;
    (void)::setsockopt(maker.get(), SOL_SOCKET, SO_RCVTIMEO, &kSendLimit, sizeof kSendLimit);
    if (auto device = receive_descriptor(maker.get(), "whoever makes the mount")) return device;
  }
  return Status{Code::kDeadlineExceeded, "nobody made the mount that this process is to serve (--mount-for)"};
}

Status hand_mount(pid_t server, const std::string& directory, const MountOptions& options,
                  std::chrono::milliseconds limit) {
  const Descriptor to(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  KINTSUGI_ASSIGN(const std::string name, name_shown_by(server));
  const Address address(name);
  if (!to.open()) return status_from_errno(errno, "socket");
  if (::connect(to.get(), address.get(), address.bytes) != 0 || peer_of(to.get()).pid != server)
    return {Code::kNotFound, fmt::format("process {} does not wait for a mount (--await-mount)", server)};
  KINTSUGI_ASSIGN(const int device, mount_at(directory, options));
  const Status sent = send_descriptor(to.get(), device);
  // From now on the mount ends with the process that serves it.
  ::close(device);
  if (sent.ok() && answers(directory, limit)) return {};
  const Status failed =
      sent.ok() ? Status{Code::kUnavailable, fmt::format("process {} does not serve the mount", server)}
                : sent;
  // All who wait for an answer are told that there is none. Whoever the server has heard waits for it otherwise, and cannot
  // even be killed.
  (void)::umount2(directory.c_str(), MNT_FORCE);
  (void)unmount(directory, true);
  return failed;
}

}  // namespace kintsugi::mount
