/// Runs DiskCalls through one io_uring: submitted once for each turn of the event loop, completed through an eventfd.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <liburing.h>

#include "common/runtime/production/disk_call.h"
#include "common/runtime/resumption.h"

namespace kintsugi {
namespace asio = boost::asio;
}

namespace kintsugi::runtime {

/// At most Limits::in_flight calls are with the kernel; more wait in order. Calls are unordered among each other. The
/// queue is shared by the disk, its open files, and handlers under way, and belongs to the thread of `io`. REQUIRES:
/// shut_down() is called before its owner lets go of it.
class UringQueue : public std::enable_shared_from_this<UringQueue> {
 public:
  static constexpr unsigned kMaxInFlight = 256;
  struct Limits {
    unsigned in_flight = kMaxInFlight;
    /// Threads that the kernel may use for calls that block, of all queues of the loop's thread together; 0: its
    /// default, which is a few for each processor: as many calls to one disk that hangs stop those to all others.
    unsigned kernel_threads = 0;
  };

  static std::shared_ptr<UringQueue> create(asio::io_context& io, Limits limits);
  ~UringQueue();
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;

  /// Returns the call's result, or -errno. The memory that the call points to lives until then.
  asio::awaitable<int> run(DiskCall call);
  /// Closes without anybody waiting for it: the last close of a removed file may have to free its blocks.
  void close_later(int fd);

  /// Waits (blocking) for the calls that the kernel still works on, and forgets who asked. Later calls
  /// fail with -ECANCELED.
  void shut_down();

 private:
  struct Request {
    DiskCall call;
    Resumption<int> caller;  // empty when nobody waits
  };

  UringQueue(asio::io_context& io, Limits limits);
  bool set_up_ring(Limits limits);
  void enqueue(DiskCall call, Resumption<int> caller);
  void schedule_flush();
  void flush();
  void submit();
  void reap();
  void watch();
  void finish(uint32_t slot, int result);

  asio::io_context& io_;
  io_uring ring_{};
  bool ring_ready_ = false;
  bool shut_down_ = false;
  bool flush_scheduled_ = false;
  asio::posix::stream_descriptor event_;
  uint64_t event_count_ = 0;
  std::deque<Request> waiting_;
  std::vector<Request> slots_;  // index = user_data of the submission
  std::vector<uint32_t> free_slots_;
};

}  // namespace kintsugi::runtime
