#include "client/mount/kernel/notifier.h"

#include <cerrno>
#include <cstring>

#include <boost/asio/buffer.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "client/mount/kernel/protocol.h"
#include "common/base/assert.h"

namespace kintsugi::mount {

namespace {

constexpr size_t kMaxMessage = 512;

}  // namespace

void write_notifications(int socket, int device) {
  alignas(8) char message[kMaxMessage];
  for (;;) {
    const ssize_t got = ::recv(socket, message, sizeof message, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= static_cast<ssize_t>(sizeof(uint64_t))) return;
    ssize_t written;
    do
      written = ::write(device, message + sizeof(uint64_t), static_cast<size_t>(got) - sizeof(uint64_t));
    while (written < 0 && errno == EINTR);
    struct {
      uint64_t sequence;
      int64_t error;
    } outcome{0, written < 0 ? errno : 0};
    std::memcpy(&outcome.sequence, message, sizeof outcome.sequence);
    // Fails only when nobody listens any more, which the next recv() tells.
    (void)!::send(socket, &outcome, sizeof outcome, MSG_NOSIGNAL);
  }
}

NotifierThread::NotifierThread(int device) {
  int ends[2];
  KINTSUGI_ASSERT(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  ours_ = ends[0];
  theirs_ = ends[1];
  thread_ = std::thread([socket = ours_, device] { write_notifications(socket, device); });
}

NotifierThread::~NotifierThread() {
  ::shutdown(ours_, SHUT_RDWR);
  thread_.join();
  ::close(ours_);
  if (theirs_ >= 0) ::close(theirs_);
}

int NotifierThread::take_socket() {
  return std::exchange(theirs_, -1);
}

Notifier::Notifier(asio::io_context& io, const runtime::Runtime& runtime, int socket)
    : slots_(runtime, kMaxPending), socket_(io, socket) {
  receive();
}

Notifier::~Notifier() {
  *alive_ = false;
  close();
}

void Notifier::close() {
  if (closed_) return;
  closed_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
  finish_all(ECANCELED);
}

void Notifier::lose() {
  if (closed_) return;
  on_lost();
  close();
}

void Notifier::finish_all(int error) {
  for (auto& [sequence, caller] : std::exchange(waiting_, {}))
    asio::post(socket_.get_executor(),
               [caller = std::move(caller), error]() mutable { caller.resume(error); });
}

void Notifier::receive() {
  socket_.async_read_some(asio::buffer(&outcome_, sizeof outcome_),
                          [this, alive = alive_](boost::system::error_code error, size_t bytes) {
                            if (!*alive || closed_) return;
                            if (error || bytes != sizeof outcome_) return lose();
                            if (auto found = waiting_.find(outcome_.sequence); found != waiting_.end()) {
                              auto caller = std::move(found->second);
                              waiting_.erase(found);
                              const int outcome = static_cast<int>(outcome_.error);
                              receive();
                              caller.resume(outcome);
                            } else {
                              receive();
                            }
                          });
}

asio::awaitable<Status> Notifier::send(int32_t code, const void* head, size_t head_bytes,
                                       std::string_view name) {
  KINTSUGI_CO_TRY(co_await slots_.acquire(TimePoint::max()));
  if (closed_) {
    slots_.release();
    co_return Status{Code::kCancelled, "the mount ends"};
  }
  const uint64_t sequence = next_++;
  const size_t name_bytes = name.empty() ? 0 : name.size() + 1;
  std::array<std::byte, kMaxMessage> message{};
  const size_t bytes = sizeof(fuse_out_header) + head_bytes + name_bytes;
  KINTSUGI_ASSERT(sizeof sequence + bytes <= message.size());
  const fuse_out_header header{.len = static_cast<uint32_t>(bytes), .error = code, .unique = 0};
  std::byte* out = message.data();
  std::memcpy(out, &sequence, sizeof sequence);
  std::memcpy(out += sizeof sequence, &header, sizeof header);
  std::memcpy(out += sizeof header, head, head_bytes);
  // The nul behind the name is there already.
  name.copy(reinterpret_cast<char*>(out + head_bytes), name.size());
  int error = 0;
  // There is room for kMaxPending messages in the socket.
  if (::send(socket_.native_handle(), message.data(), sizeof sequence + bytes, MSG_NOSIGNAL | MSG_DONTWAIT) <
      0) {
    error = errno;
    lose();
  } else {
    error = co_await runtime::suspend<int>(
        [&](runtime::Resumption<int> caller) { waiting_.emplace(sequence, std::move(caller)); });
  }
  slots_.release();
  if (error == 0 || error == ENOENT) co_return Status{};
  co_return status_from_errno(error, "tell the kernel what changed");
}

asio::awaitable<Status> Notifier::invalidate_inode(NodeId node, int64_t offset, int64_t length) {
  const fuse_notify_inval_inode_out head{.ino = node, .off = offset, .len = length};
  co_return co_await send(FUSE_NOTIFY_INVAL_INODE, &head, sizeof head, {});
}

asio::awaitable<Status> Notifier::invalidate_entry(NodeId parent, std::string_view name, bool expire_only) {
  const fuse_notify_inval_entry_out head{.parent = parent,
                                         .namelen = static_cast<uint32_t>(name.size()),
                                         .flags = expire_only ? uint32_t{FUSE_EXPIRE_ONLY} : 0};
  co_return co_await send(FUSE_NOTIFY_INVAL_ENTRY, &head, sizeof head, name);
}

}  // namespace kintsugi::mount
