#include "client/mount/kernel/handed_mount.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/mount.h>
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
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(const Socket&) = delete;
  int get() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }

 private:
  const int descriptor_;
};

/// An abstract name, which needs no directory and goes with its process.
struct Address {
  explicit Address(pid_t server) {
    name.sun_family = AF_UNIX;
    const std::string text = fmt::format("kintsugi-mount/{}", server);
    std::memcpy(name.sun_path + 1, text.data(), text.size());
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }

  sockaddr_un name{};
  socklen_t bytes;
};

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
  const Socket listening(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const Address address(::getpid());
  if (!listening.open() || ::bind(listening.get(), address.get(), address.bytes) != 0 ||
      ::listen(listening.get(), 8) != 0)
    return status_from_errno(errno, "wait for a mount");
  tell_systemd("READY=1\n");
  for (const auto until = now() + limit; now() < until;) {
    pollfd watched{listening.get(), POLLIN, 0};
    if (::poll(&watched, 1, static_cast<int>((until - now()).count() + 1)) <= 0) continue;
    const Socket maker(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const uid_t user = maker.open() ? peer_of(maker.get()).uid : UINT32_MAX;
    if (user != 0 && user != ::geteuid()) continue;
    (void)::setsockopt(maker.get(), SOL_SOCKET, SO_RCVTIMEO, &kSendLimit, sizeof kSendLimit);
    if (auto device = receive_descriptor(maker.get(), "whoever makes the mount")) return device;
  }
  return Status{Code::kDeadlineExceeded, "nobody made the mount that this process is to serve (--mount-for)"};
}

Status hand_mount(pid_t server, const std::string& directory, const MountOptions& options,
                  std::chrono::milliseconds limit) {
  const Socket to(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const Address address(server);
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
