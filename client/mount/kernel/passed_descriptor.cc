#include "client/mount/kernel/passed_descriptor.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace kintsugi::mount {
namespace {

/// A message of one byte with room for one descriptor.
struct Message {
  Message() {
    head.msg_iov = &part;
    head.msg_iovlen = 1;
    head.msg_control = control;
    head.msg_controllen = sizeof control;
  }
  Message(const Message&) = delete;

  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr head{};
};

}  // namespace

Status send_descriptor(int socket, int descriptor) {
  Message message;
  cmsghdr* const head = CMSG_FIRSTHDR(&message.head);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  ssize_t sent;
  do
    sent = ::sendmsg(socket, &message.head, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == 1 ? Status{} : status_from_errno(errno, "pass a descriptor");
}

Result<int> receive_descriptor(int socket, std::string_view from) {
  Message message;
  ssize_t got;
  do
    got = ::recvmsg(socket, &message.head, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  const cmsghdr* head = got > 0 ? CMSG_FIRSTHDR(&message.head) : nullptr;
  if (head == nullptr || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
      head->cmsg_len != CMSG_LEN(sizeof(int))) {
    return Status{Code::kIoError, fmt::format("{} gave no descriptor", from)};
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
  return descriptor;
}

}  // namespace kintsugi::mount
