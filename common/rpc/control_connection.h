/// The client's side of a connection that carries unary calls, many in flight, matched by request id.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/rpc/batch_writer.h"
#include "common/rpc/buffered_connection.h"
#include "common/rpc/follower.h"
#include "common/rpc/wakeup.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::rpc {

/// One call in flight. It lives in the frame of the coroutine that waits for it.
struct PendingCall {
  explicit PendingCall(const asio::any_io_executor& executor) : done(executor) {}
  Wakeup done;
  TimePoint sent_at, deadline;
  Status error;
  std::string response;
};

/// It is shared: its reader and writer coroutines keep it alive until the connection is closed.
class ControlConnection : public std::enable_shared_from_this<ControlConnection> {
 public:
  static constexpr size_t kMaxCallsInFlight = 1 << 16;
  static constexpr size_t kMostRepeated = 64;

  ControlConnection(const runtime::Runtime& runtime, std::shared_ptr<BufferedConnection> connection);

  /// Starts the reader and the writer.
  void start(runtime::TaskGroup& group);

  /// Sends the request and waits. kUnavailable when the connection breaks, kDeadlineExceeded, kLimitExceeded
  /// when too much is queued or the request is too large. What the request is made of outlives the call. `followed`: for whom the
  /// peer is told before (Context::followed).
  asio::awaitable<Result<std::string>> call(TraceContext trace, TimePoint deadline, Method method,
                                            FrameBody request, uint32_t followed = 0);
  /// Has the peer know of a call that is followed, of this connection or another one, and waits for its answers, but not long and
  /// not beyond `deadline`.
  asio::awaitable<void> announce(CallName call, uint32_t followed, TimePoint deadline);

  bool is_open() const { return !closing_; }
  /// See BufferedConnection.
  uint64_t proven_by() const { return connection_->proven_by(); }
  /// True when a call waited in vain and nothing at all came meanwhile: new calls had better dial again.
  bool is_suspect() const { return suspect_; }
  bool has_calls() const { return free_slots_.size() < slots_.size(); }
  TimePoint last_used() const { return last_used_; }
  /// The methods whose answers came a second time since the last call of this function; only some of them if there
  /// were very many.
  std::vector<Method> take_repeated() { return std::exchange(repeated_, {}); }
  /// Closes as soon as no call is in flight: at once, or when the last one ends.
  void retire();
  /// Fails every call with `why`.
  void close(Status why);

 private:
  /// A request id is (generation << kSlotBits) | slot, so that the answer to a forgotten call fits no later one.
  static constexpr int kSlotBits = 20;
  struct Slot {
    PendingCall* call = nullptr;
    uint64_t generation = 1;
    uint64_t answered = 0;  ///< the last generation whose call ended with an answer
  };

  // Spawned coroutines get `self` as a parameter: it must be held before they first run.
  static asio::awaitable<void> read_loop(std::shared_ptr<ControlConnection> self);
  static asio::awaitable<void> write_loop(std::shared_ptr<ControlConnection> self);
  asio::awaitable<Status> read_responses();
  Status take_response(const FrameView& frame);
  uint64_t take_slot(PendingCall& call);
  void finish(size_t slot, Status error);

  void watch_deadline(TimePoint deadline);
  void on_timer();

  runtime::Runtime runtime_;
  asio::any_io_executor executor_;  ///< executor on which the queues run
  std::shared_ptr<BufferedConnection> connection_;
  BatchWriter writer_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::vector<Method> repeated_;  ///< methods of answers that came twice; at most kMostRepeated

  runtime::TimerId timer_ = runtime::TimerId::kNone;
  TimePoint timer_due_ = TimePoint::max();
  TimePoint last_received_, last_used_;
  bool suspect_ = false, retired_ = false, closing_ = false;
};

}  // namespace kintsugi::rpc
