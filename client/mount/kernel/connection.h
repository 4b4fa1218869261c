/// A mounted file system's end of /dev/fuse: reads requests, and has each one served by a coroutine, from the
/// handshake to the unmount.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "client/mount/kernel/dispatcher.h"
#include "client/mount/kernel/handshake.h"
#include "client/mount/kernel/interrupts.h"
#include "client/mount/kernel/keep_awake.h"
#include "client/mount/kernel/reply_writer.h"
#include "client/mount/kernel/requests_in_flight.h"
#include "common/runtime/event.h"
#include "common/runtime/production/production_runtime.h"

namespace kintsugi::mount {

struct ConnectionOptions {
  HandshakeOptions handshake;
  /// While so many requests wait for their answers, no more are read: they wait in the kernel. Those whose application
  /// was told EINTR do not count, or else the end of a killed application, which asks for a flush, could not be
  /// served; but they are never more than as many again.
  size_t max_in_flight = 1024;
  /// Large writes that are being served at once, counted in the same way; each takes max_write_bytes while it is.
  size_t large_buffers = 32;
  /// An interrupted request is answered with EINTR when it is that old, if its caller was killed or waits for a lock.
  Duration interrupt_patience = std::chrono::seconds(1);
  /// How long stop() lets requests end before they are left to the next process.
  Duration stop_patience = std::chrono::seconds(30);
  /// The protocol that a former process agreed on with the kernel; this process continues with it.
  std::optional<Negotiated> adopted;
  /// Another process read from the device before: it may have taken requests with it, even the kernel's first one.
  bool resend_first = false;
  /// Called when the kernel's INIT is going to be answered.
  std::function<void(const Negotiated&)> on_agreed;
  /// Called once when the file system is unmounted or aborted, while requests that were under way may still wait for
  /// something.
  std::function<void()> on_gone;
  /// One word for each request in flight, in memory that outlives this process: for kernels that cannot resend, so that
  /// the next process can fail what was lost. Empty, or 2 * max_in_flight words.
  std::span<std::atomic<uint64_t>> journal;
  /// Requests are recorded as tasks at its recorder.
  Context context;
  /// For KeepAwake. Empty: processors halt as they please.
  std::string awake_device;
};

enum class Ending {
  kUnmounted,
  kAborted,  ///< the administrator aborted it through /sys/fs/fuse/connections
  /// stop() was called. The file system is still mounted, and the kernel keeps requests for the next process.
  kStopped,
};

/// Belongs to the thread of the runtime. REQUIRES: serve() returned before it is destroyed.
class Connection final : private EarlyAnswers {
 public:
  /// Owns `device`, an open /dev/fuse that a file system is mounted with.
  Connection(runtime::ProductionRuntime& runtime, int device, FileSystem& file_system,
             ConnectionOptions options);
  ~Connection();

  /// Serves until the file system is unmounted or stop() is called, and every handler has ended: those of requests that
  /// nobody waits for any more are interrupted.
  asio::awaitable<Result<Ending>> serve();
  /// Ends serve() without an unmount. Locks that wait, and what takes longer than stop_patience, stays unanswered.
  void stop();
  /// Ends serve() as an abort of the connection does: nothing is answered any more. The kernel hears of it when the
  /// device is closed.
  void abandon_all() { end(Ending::kAborted); }

  size_t in_flight() const { return requests_.count(); }

 private:
  void adopt();
  void ask_to_resend();

  void read_more();
  bool may_read();
  void on_read(const boost::system::error_code& error, size_t bytes);
  void read_batch();
  void on_request(std::span<const std::byte> bytes);
  void on_init(std::span<const std::byte> bytes);

  void start(std::span<const std::byte> bytes);
  asio::awaitable<void> handle(Request& request);
  bool answer(Request& request, int error);
  void abandon(Request& request) override;
  /// Leaves it to the next process, or to nobody after an unmount.
  void leave(Request& request);
  void finish(Request& request);

  void housekeep();
  void end(Ending ending);

  runtime::ProductionRuntime& runtime_;
  runtime::Clock& clock_;
  FileSystem& file_system_;
  ConnectionOptions options_;
  Dispatcher dispatcher_;
  asio::posix::stream_descriptor device_;
  ReplyWriter replies_;
  KeepAwake keep_awake_;
  runtime::BufferPool buffers_;
  runtime::Buffer reading_into_;
  bool reading_ = false;
  bool batches_pay_ = false;  ///< the latest attempt to read several requests at once found several
  unsigned reads_ = 0;
  RequestsInFlight requests_;
  Interrupts interrupts_;
  runtime::TimerId next_housekeeping_ = runtime::TimerId::kNone;
  unsigned housekeepings_ = 0;
  bool agreed_ = false;
  std::optional<Ending> ending_;
  Status failure_;
  /// The latest request that has no coroutine (FORGET, INTERRUPT).
  Request message_;
  runtime::Event changed_;
};

}  // namespace kintsugi::mount
