/// Tells the kernel that something it caches is out of date.
///
/// The kernel takes the lock of the inode, or of one of its pages, inside the write of such a message, and an
/// application may hold that while its request waits for us: so nobody who serves requests may write one. They go
/// through a socket to somebody who does nothing else: a thread (NotifierThread), or, under a Supervisor, a process of
/// its own: a thread that hangs in the kernel would keep a killed process from ending, and its successor from being
/// started.
#pragma once

#include <functional>
#include <string_view>
#include <thread>
#include <unordered_map>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "client/mount/kernel/file_system.h"
#include "common/runtime/event.h"
#include "common/runtime/resumption.h"

namespace kintsugi::mount {

/// Writes what comes over `socket` to `device`, until the socket's other end is closed. Allocates nothing.
void write_notifications(int socket, int device);

/// A thread that runs write_notifications().
class NotifierThread {
 public:
  /// `device` stays open for as long as this lives.
  explicit NotifierThread(int device);
  /// Waits until the last message was written: unmount first if one may hang.
  ~NotifierThread();

  /// The other end, to be given to a Notifier, once.
  int take_socket();

 private:
  int ours_ = -1;
  int theirs_ = -1;
  std::thread thread_;
};

/// Single-threaded. Each call returns when the kernel has done it; what the kernel does not know is done already.
/// Calls are carried out in the order in which they were made. Never wait for one inside a request that holds the
/// kernel's lock of the same inode or directory: an operation on a name, a write, a read of the same pages.
class Notifier {
 public:
  /// Owns `socket`.
  Notifier(asio::io_context& io, const runtime::Runtime& runtime, int socket);
  ~Notifier();

  /// Drops the cached attributes, and the cached pages of [offset, offset + length); length 0: to the end; offset < 0:
  /// attributes only.
  asio::awaitable<Status> invalidate_inode(NodeId node, int64_t offset, int64_t length);
  /// Drops a name, or (`expire_only`) has it looked up again at its next use, which leaves what is mounted or open
  /// below.
  asio::awaitable<Status> invalidate_entry(NodeId parent, std::string_view name, bool expire_only);

  /// Calls under way end with kCancelled.
  void close();

  /// Runs when whoever writes the messages is gone although close() was not called. From then on the kernel believes what
  /// is out of date: calls fail, and those under way have not ended yet.
  std::function<void()> on_lost = [] {};

  static constexpr size_t kMaxPending = 128;

 private:
  asio::awaitable<Status> send(int32_t code, const void* head, size_t head_bytes, std::string_view name);
  void receive();
  void finish_all(int error);
  void lose();

  runtime::Semaphore slots_;
  asio::posix::stream_descriptor socket_;
  std::unordered_map<uint64_t, runtime::Resumption<int>> waiting_;
  uint64_t next_ = 1;
  bool closed_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  struct Outcome {
    uint64_t sequence;
    int64_t error;
  } outcome_{};
};

}  // namespace kintsugi::mount
