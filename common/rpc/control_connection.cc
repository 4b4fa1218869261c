#include "common/rpc/control_connection.h"

#include <algorithm>

#include "common/log/log.h"
#include "common/rpc/error_frame.h"

namespace kintsugi::rpc {
namespace {

/// Deadlines are checked this finely, so that many close together cost one scan.
constexpr Duration kDeadlineGrain = 1ms;
/// A call that is followed is held back no longer than this until its receiver says that it records.
constexpr Duration kAnnounceLimit = 5s;
/// A call that waited at least this long while nothing came puts its connection under suspicion.
constexpr Duration kSuspectAfter = 500ms;

}  // namespace

ControlConnection::ControlConnection(const runtime::Runtime& runtime,
                                     std::shared_ptr<BufferedConnection> connection)
    : runtime_(runtime),
      executor_(queueing(runtime.executor)),
      connection_(std::move(connection)),
      writer_(executor_, runtime.clock),
      last_received_(runtime.clock.now()),
      last_used_(last_received_) {
  connection_->set_buffer_bytes(BufferedConnection::kControlBufferBytes);
}

void ControlConnection::start(runtime::TaskGroup& group) {
  group.spawn(read_loop(shared_from_this()));
  group.spawn(write_loop(shared_from_this()));
}

asio::awaitable<Result<std::string>> ControlConnection::call(TraceContext trace, TimePoint deadline,
                                                             Method method, FrameBody request,
                                                             uint32_t followed) {
  if (request.size() > kMaxHeaderBytes) {
    co_return Status{Code::kLimitExceeded, fmt::format("{}: request of {} bytes, limit {}",
                                                       method_name(method), request.size(), kMaxHeaderBytes)};
  }
  if (closing_) co_return Status{Code::kUnavailable, connection_->peer() + ": connection closed"};
  if (slots_.size() - free_slots_.size() >= kMaxCallsInFlight || writer_.full()) {
    co_return Status{Code::kLimitExceeded, connection_->peer() + ": too many calls in flight"};
  }
  auto self = shared_from_this();
  // The slot points into this frame. That is safe because finish(), the only one who ends the wait, empties the
  // slot first.
  PendingCall pending(executor_);
  pending.sent_at = last_used_ = runtime_.clock.now();
  pending.deadline = deadline;
  const uint64_t id = take_slot(pending);
  if (followed != 0) {
    watch_deadline(deadline);
    co_await announce({connection_->marks().connection(), id, method}, followed, deadline);
    // Its time was over, or the connection closed, before it was sent.
    if (!pending.error.ok()) co_return std::move(pending.error);
    pending.sent_at = runtime_.clock.now();
  }
  FrameHeader header{.method = method,
                     .flags = kFlagRequest,
                     .timeout_ms = timeout_ms(pending.sent_at, deadline),
                     .request_id = id,
                     .trace_id = trace.trace_id,
                     .span_id = trace.span_id,
                     .path = trace.path};
  connection_->marks().sent(header, kFrameHeaderBytes + request.size());
  writer_.append(header, request);
  watch_deadline(deadline);
  co_await pending.done.wait();
  if (!pending.error.ok()) co_return std::move(pending.error);
  co_return std::move(pending.response);
}

asio::awaitable<void> ControlConnection::announce(CallName call, uint32_t followed, TimePoint deadline) {
  auto self = shared_from_this();
  Follower* const traces = follower();
  if (traces == nullptr) co_return;
  const TimePoint patience = std::min(deadline, runtime_.clock.now() + kAnnounceLimit);
  for (const Announcement& asked : traces->announcements(connection_->peer(), call, followed)) {
    // Whoever has no time left has not refused: it is asked again before the next call.
    if (runtime_.clock.now() >= patience) co_return;
    const Result<std::string> answer =
        co_await this->call({}, patience, Method::kTrace, FrameBody(std::string_view(asked.request)));
    traces->announced(connection_->peer(), asked.owner, answer ? Status{} : answer.error());
    // The connection has broken: for the others nobody was asked, and they are announced over the next one.
    if (closing_) co_return;
  }
}

uint64_t ControlConnection::take_slot(PendingCall& call) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot].call = &call;
  return slots_[slot].generation << kSlotBits | slot;
}

void ControlConnection::finish(size_t slot, Status error) {
  PendingCall* call = std::exchange(slots_[slot].call, nullptr);
  // A late answer to this call finds another generation here, even when the slot serves a new call by then.
  ++slots_[slot].generation;
  free_slots_.push_back(static_cast<uint32_t>(slot));
  call->error = std::move(error);
  call->done.notify();
  if (retired_ && !has_calls()) close({Code::kCancelled, "connection retired"});
}

asio::awaitable<void> ControlConnection::write_loop(std::shared_ptr<ControlConnection> self) {
  while (true) {
    Status written = co_await self->writer_.write_batch(*self->connection_);
    if (!written.ok()) co_return self->close(std::move(written));
  }
}

asio::awaitable<void> ControlConnection::read_loop(std::shared_ptr<ControlConnection> self) {
  Status ended = co_await self->read_responses();
  bool malformed = ended.code() == Code::kCorrupt || ended.code() == Code::kLimitExceeded;
  if (malformed)
    log::warning("rpc: closing connection to {}: {}", self->connection_->peer(), ended.message());
  self->close(std::move(ended));
}

asio::awaitable<Status> ControlConnection::read_responses() {
  while (true) {
    size_t needed = 0;
    Result<std::optional<FrameView>> frame = connection_->peek_frame(needed);
    if (!frame) co_return frame.error();
    if (*frame) {
      // The view is valid until consume(): take_response copies what it keeps.
      KINTSUGI_CO_TRY(take_response(**frame));
      connection_->consume((*frame)->bytes());
      continue;
    }
    Result<size_t> read = co_await connection_->fill(needed);
    if (!read) co_return read.error();
    if (*read == 0) co_return Status{Code::kUnavailable, "connection closed by peer"};
    last_received_ = runtime_.clock.now();
    suspect_ = false;
  }
}

Status ControlConnection::take_response(const FrameView& frame) {
  const FrameHeader& header = frame.header;
  connection_->marks().received(header, frame.bytes());
  if ((header.flags & (kFlagRequest | kFlagStream)) != 0 || header.payload_bytes != 0) {
    return {Code::kCorrupt, "a frame that is no response to a unary call"};
  }
  size_t slot = header.request_id & ((uint64_t{1} << kSlotBits) - 1);
  uint64_t generation = header.request_id >> kSlotBits;
  bool wanted = slot < slots_.size() && slots_[slot].call != nullptr && slots_[slot].generation == generation;
  if (!wanted) {  // the answer is late (its caller gave up), or it came twice
    const bool is_again = slot < slots_.size() && slots_[slot].answered == generation;
    if (is_again && repeated_.size() < kMostRepeated) repeated_.push_back(header.method);
    return {};
  }
  slots_[slot].answered = generation;
  Status error;
  if (header.status == Code::kOk) {
    slots_[slot].call->response.assign(reinterpret_cast<const char*>(frame.message.data()),
                                       frame.message.size());
  } else {
    error = decode_error(header.status, frame.message);
  }
  finish(slot, std::move(error));
  return {};
}

void ControlConnection::retire() {
  retired_ = true;
  if (!has_calls()) close({Code::kCancelled, "connection retired"});
}

void ControlConnection::close(Status why) {
  if (closing_) return;
  closing_ = true;
  connection_->close();
  writer_.stop();
  if (timer_ != runtime::TimerId::kNone) runtime_.clock.cancel(timer_);
  timer_ = runtime::TimerId::kNone;
  // Whatever broke the connection, the peer is unavailable to its callers; only a stop of this side is told apart.
  Code code = why.code() == Code::kCancelled ? Code::kCancelled : Code::kUnavailable;
  Status failure = Status{code, why.message()}.with_context(connection_->peer());
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].call != nullptr) finish(slot, failure);
  }
}

void ControlConnection::watch_deadline(TimePoint deadline) {
  if (deadline >= timer_due_ || closing_) return;
  if (timer_ != runtime::TimerId::kNone) runtime_.clock.cancel(timer_);
  timer_due_ = std::max(deadline, runtime_.clock.now() + kDeadlineGrain);
  timer_ = runtime_.clock.call_at(timer_due_, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->on_timer();
  });
}

void ControlConnection::on_timer() {
  timer_ = runtime::TimerId::kNone;
  timer_due_ = TimePoint::max();
  TimePoint now = runtime_.clock.now();
  TimePoint next = TimePoint::max();
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    PendingCall* call = slots_[slot].call;
    if (call == nullptr) continue;
    if (call->deadline > now) {
      next = std::min(next, call->deadline);
      continue;
    }
    if (now - call->sent_at >= kSuspectAfter && last_received_ <= call->sent_at) suspect_ = true;
    finish(slot, {Code::kDeadlineExceeded, connection_->peer() + ": no answer before the deadline"});
  }
  if (next != TimePoint::max()) watch_deadline(next);
}

}  // namespace kintsugi::rpc
