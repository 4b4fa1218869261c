#include "common/rpc/server_connection.h"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/log/log.h"
#include "common/proto/types.pb.h"
#include "common/rpc/admission.h"
#include "common/rpc/batch_writer.h"
#include "common/rpc/call_watch.h"
#include "common/rpc/error_frame.h"
#include "common/rpc/handshake.h"
#include "common/rpc/wakeup.h"
#include "common/runtime/fault_points.h"
#include "common/runtime/span.h"

namespace kintsugi::rpc {
namespace {

using google::protobuf::MessageLite;

const Status kProvenInVain{Code::kUnavailable, "the secret that it was proven with was dropped"};
const Status kUnparsed{Code::kInvalidArgument, "request does not parse"};

/// Who is not heard in time loses what it has: leases, the work of a repair manager, its place among the living.
bool keeps_sender(Method method) {
  return method == Method::kKeepSession || method == Method::kHeartbeat || method == Method::kJoinRepair ||
         method == Method::kRegisterMonitor;
}

/// A call of this method waits until there is news for its caller, and most often for a long time.
bool awaits_news(Method method) {
  return method == Method::kAwaitRecalls || method == Method::kFetchRepairWork;
}

/// Unary calls of one connection: requests in, responses out in batches.
class ControlSession : public std::enable_shared_from_this<ControlSession> {
 public:
  ControlSession(ServerCore& core, Admission admission, std::shared_ptr<BufferedConnection> connection)
      : core_(core),
        admission_(std::move(admission)),
        connection_(std::move(connection)),
        writer_(core.runtime.executor, core.runtime.clock),
        room_(core.runtime.executor),
        queued_(connection_->share()->hold_bytes(0)) {
    connection_->set_buffer_bytes(BufferedConnection::kControlBufferBytes);
  }

  /// Reads requests until the connection ends and returns why. Handlers may still run then: they keep this alive.
  asio::awaitable<Status> serve();

 private:
  /// What the request takes of its peer's share, from now until its answer is queued.
  Need need_of(const FrameView& frame) const;
  Status start_call(const FrameView& frame, Peer::Held held);
  // Spawned coroutines get `self` as a parameter: it must be held before they first run.
  static asio::awaitable<void> run_call(std::shared_ptr<ControlSession> self, const UnaryHandler& handler,
                                        FrameHeader header, std::string request, Peer::Held held);
  /// `bytes`: the request as it came.
  asio::awaitable<Status> invoke(const UnaryHandler& handler, Context context, Method method,
                                 std::string_view bytes, MessageLite& request, MessageLite& response) const;
  void respond(const FrameHeader& request, Status status, const MessageLite& response);
  static asio::awaitable<void> write_loop(std::shared_ptr<ControlSession> self);

  bool saturated() const { return calls_ >= core_.limits.max_calls_per_connection || writer_.full(); }

  ServerCore& core_;
  const Admission admission_;
  std::shared_ptr<BufferedConnection> connection_;
  BatchWriter writer_;
  Wakeup room_;  ///< notified when a call ended or responses were sent
  size_t calls_ = 0;
  bool ended_ = false;
  Peer::Held queued_;  ///< answers that are not written yet
};

asio::awaitable<Status> ControlSession::serve() {
  core_.group.spawn(write_loop(shared_from_this()));
  Status ended;
  while (ended.ok()) {
    // Not to read is what slows the client down: further requests wait in the sockets and take no memory here.
    while (saturated() && !ended_)
      co_await room_.wait();
    if (ended_) {
      ended = Status{Code::kUnavailable, "connection broke"};
      break;
    }
    size_t needed = 0;
    Result<std::optional<FrameView>> frame = connection_->peek_frame(needed);
    if (!frame) {
      ended = frame.error();
    } else if (*frame) {
      size_t bytes = (*frame)->bytes();
      Peer::Held held = connection_->take_large_frame();
      const Need need = need_of(**frame);
      if (held) {
        held.resize(need.bytes);  // what only coming in took is free again
      } else {
        held = connection_->share()->try_hold(need);
      }
      if (!held) {
        auto granted = co_await connection_->hold(need);
        if (!granted) {
          ended = granted.error();
          continue;
        }
        held = std::move(*granted);
      }
      // Asked last, since it may have waited long for its room.
      if (!admission_.stands()) {
        ended = kProvenInVain;
        continue;
      }
      ended = start_call(**frame, std::move(held));
      connection_->consume(bytes);
    } else {
      Result<size_t> read = co_await connection_->fill(needed);
      if (!read) {
        ended = read.error();
      } else if (*read == 0) {
        bool clean = connection_->buffered().empty();
        ended = clean ? Status{Code::kUnavailable, "closed by peer"}
                      : Status{Code::kCorrupt, "ends inside a frame"};
      }
    }
  }
  ended_ = true;
  connection_->close();
  writer_.stop();
  co_return ended;
}

Need ControlSession::need_of(const FrameView& frame) const {
  const auto method = static_cast<size_t>(frame.header.method);
  const size_t largest = method < kMethods ? core_.largest_answers[method] : 0;
  // Every mount has a call that waits for news, and any call may wait for another client. Were each to hold room for the
  // largest answer, a few dozen with one token would fill its share, and for as long as they wait.
  const size_t answer =
      std::min(largest, awaits_news(frame.header.method) ? Peer::kSmallBytes / 2 : Peer::kMostForAnswer);
  // The request is in memory twice: its bytes, and parsed.
  const size_t bytes = Peer::kRequestBytes + 2 * frame.message.size() + answer;
  const bool few =
      keeps_sender(frame.header.method) || (calls_ < Peer::kFewRequests && bytes <= Peer::kSmallBytes);
  return {.requests = 1, .bytes = bytes, .always = few && writer_.bytes() <= Peer::kSmallBytes};
}

Status ControlSession::start_call(const FrameView& frame, Peer::Held held) {
  const FrameHeader& header = frame.header;
  connection_->marks().received(header, frame.bytes());
  if (header.flags != kFlagRequest || header.status != Code::kOk) {
    return {Code::kCorrupt, fmt::format("flags {:#x} where a unary request was expected", header.flags)};
  }
  if (header.payload_bytes != 0) return {Code::kCorrupt, "a unary request with a payload"};
  const UnaryHandler* handler = core_.unary_handler(header.method);
  if (handler == nullptr) {
    Status unknown{
        Code::kNotSupported,
        fmt::format(
            "this daemon does not serve {} (method {}): its address is that of another kind of daemon",
            method_name(header.method), static_cast<int>(header.method))};
    respond(header, std::move(unknown), proto::Empty::default_instance());
    return {};
  }
  // A copy, since the view ends with consume(), before the handler runs.
  std::string request(reinterpret_cast<const char*>(frame.message.data()), frame.message.size());
  ++calls_;
  core_.group.spawn(run_call(shared_from_this(), *handler, header, std::move(request), std::move(held)));
  return {};
}

asio::awaitable<Status> ControlSession::invoke(const UnaryHandler& handler, Context context, Method method,
                                               std::string_view bytes, MessageLite& request,
                                               MessageLite& response) const {
  KINTSUGI_FAULT_POINT(context.faults, runtime::FaultPoint::kServeCall, method_name(method));
  const proto::Change* const change = handler.change ? handler.change(request) : nullptr;
  std::optional<Repeats::Turn> turn;
  Status status;
  if (Repeats::concerns(change)) {
    Result<Repeats::Turn> begun = co_await core_.repeats.begin(
        context, {.change = *change, .method = method, .token = admission_.token(), .bytes = bytes});
    // One that comes after it has a connection that somebody listens to.
    if (!begun)
      status = begun.error();
    else if (begun->has_waited() && ended_)
      status = {Code::kUnavailable, "its connection broke while it waited"};
    else
      turn.emplace(std::move(*begun));
  }
  if (status.ok()) status = admission_.admit(handler.caller, method, request);
  if (status.ok()) status = co_await handler.invoke(handler.service, context, request, response);
  if (turn) turn->ended(status);
  admission_.ended(method, request, status);
  co_return status;
}

asio::awaitable<void> ControlSession::run_call(std::shared_ptr<ControlSession> self,
                                               const UnaryHandler& handler, FrameHeader header,
                                               std::string bytes, Peer::Held held) {
  const WatchedCall watched(header.method);
  const std::unique_ptr<MessageLite> request(handler.request->New());
  const std::unique_ptr<MessageLite> response(handler.response->New());
  Status status = kUnparsed;
  if (request->ParseFromString(bytes)) {
    runtime::Span task(self->core_.context_of(header, *self->connection_), serve_site(header.method),
                       {.task = true, .often = true}, std::source_location::current());
    status = task.finish(
        co_await self->invoke(handler, task.context(), header.method, bytes, *request, *response));
    runtime::served(task.context(), header.span_id, serve_site(header.method), status.code());
  }
  if (runtime::is_armed(self->core_.runtime.faults)) {
    const auto fault =
        co_await self->core_.runtime.faults->pass(runtime::FaultPoint::kAnswer, method_name(header.method));
    if (!fault.status.ok()) status = fault.status;
    if (fault.repeat) self->respond(header, status, *response);
    if (fault.drop) {
      --self->calls_;
      self->room_.notify();
      co_return;
    }
  }
  --self->calls_;
  self->respond(header, status, *response);
  self->room_.notify();
}

void ControlSession::respond(const FrameHeader& request, Status status, const MessageLite& response) {
  FrameHeader header{.method = request.method, .flags = kFlagEnd, .request_id = request.request_id};
  const size_t bytes = status.ok() ? response.ByteSizeLong() : 0;
  if (bytes > kMaxHeaderBytes) {
    status = {Code::kLimitExceeded, fmt::format("response of {} bytes, limit {}", bytes, kMaxHeaderBytes)};
  }
  if (const auto method = static_cast<size_t>(request.method); method < kMethods && status.ok())
    core_.largest_answers[method] = std::max(core_.largest_answers[method], bytes);
  header.status = status.code();
  connection_->marks().sent(header, kFrameHeaderBytes + bytes);
  if (status.ok()) {
    writer_.append(header, response);
  } else {
    writer_.append(header, encode_error(status));
  }
  queued_.resize(writer_.bytes());
}

asio::awaitable<void> ControlSession::write_loop(std::shared_ptr<ControlSession> self) {
  while (!self->ended_) {
    Status written = co_await self->writer_.write_batch(*self->connection_);
    if (!written.ok()) self->ended_ = true;
    self->queued_.resize(self->writer_.bytes());
    self->room_.notify();
  }
  self->connection_->close();
}

asio::awaitable<Status> run_stream(const Admission& admission, const StreamHandler& handler, Context context,
                                   Method method, const std::string& bytes, Stream& stream) {
  const std::unique_ptr<MessageLite> request(handler.request->New());
  if (!request->ParseFromString(bytes)) co_return kUnparsed;
  KINTSUGI_FAULT_POINT(context.faults, runtime::FaultPoint::kServeStream, method_name(method));
  Status status = admission.admit(handler.caller, method, *request);
  if (status.ok()) status = co_await handler.invoke(handler.service, context, *request, stream);
  admission.ended(method, *request, status);
  co_return status;
}

/// Serves one stream call. Ok: the connection may carry the next one.
asio::awaitable<Status> serve_stream(ServerCore& core, const Admission& admission,
                                     std::shared_ptr<BufferedConnection> connection, FrameHeader header,
                                     std::string request) {
  const WatchedCall watched(header.method);
  Context context = core.context_of(header, *connection);
  runtime::Span task(context, serve_site(header.method), {.task = true}, std::source_location::current());
  Stream stream(connection, core.runtime.clock, header.method, header.request_id, context.deadline);
  stream.record_upstream(task.context(), header.span_id);
  const StreamHandler* handler = core.stream_handler(header.method);
  Status outcome{Code::kInvalidArgument,
                 fmt::format("this server has no stream method {} ({})", static_cast<int>(header.method),
                             method_name(header.method))};
  if (handler != nullptr)
    outcome = co_await run_stream(admission, *handler, task.context(), header.method, request, stream);
  // A stream whose caller has gone fails, too: nobody was refused anything, so that is no error of this server.
  const bool caller_is_gone = !stream.is_open() && outcome.code() == Code::kUnavailable;
  task.set_code(caller_is_gone ? Code::kCancelled : outcome.code());
  Status concluded = co_await stream.conclude(std::move(outcome));
  // Taken, so that the stream does not close it.
  if (concluded.ok() && stream.take_idle_connection() == nullptr) {
    concluded = Status{Code::kUnavailable, "stream did not end cleanly"};
  }
  co_return concluded;
}

/// Serves a connection; its first request makes it one for streams or one for unary calls.
asio::awaitable<Status> serve_requests(ServerCore& core, Principal by,
                                       std::shared_ptr<BufferedConnection> connection) {
  connection->belongs_to(core.peers->of(by, connection->peer()), core.runtime.clock);
  const Peer::Connected connected(connection->share()->shared_from_this());
  const Admission admission(core, std::move(by), connection->peer());
  while (true) {
    Result<FrameView> frame = co_await connection->next_frame();
    if (!frame) {
      bool truncated = frame.error().code() == Code::kUnavailable && !connection->buffered().empty();
      co_return truncated ? Status{Code::kCorrupt, "ends inside a frame"} : frame.error();
    }
    if (!admission.stands()) co_return kProvenInVain;
    FrameHeader header = frame->header;
    if (header.flags == kFlagRequest) break;
    if (header.flags != (kFlagRequest | kFlagStream) || header.payload_bytes != 0 ||
        header.status != Code::kOk) {
      co_return Status{Code::kCorrupt, fmt::format("flags {:#x} where a request was expected", header.flags)};
    }
    std::string request(reinterpret_cast<const char*>(frame->message.data()), frame->message.size());
    connection->marks().received(header, frame->bytes());
    Peer::Held held = connection->take_large_frame();
    if (held) held.resize(2 * request.size());  // its bytes, and parsed
    connection->consume(frame->bytes());
    KINTSUGI_CO_TRY(co_await serve_stream(core, admission, connection, header, std::move(request)));
  }
  auto session = std::make_shared<ControlSession>(core, admission, connection);
  co_return co_await session->serve();
}

}  // namespace

asio::awaitable<void> serve_connection(ServerCore& core, std::shared_ptr<BufferedConnection> connection) {
  if (core.group.stopping()) co_return;
  TimePoint deadline = core.runtime.clock.now() + core.limits.handshake_limit;
  Result<Principal> principal = Status{Code::kInternal, "not proven"};
  {
    const Strangers::Guard guard(core.strangers, *connection);
    principal = co_await prove_as_server(core.runtime, core.secret, core, connection, deadline);
  }
  const bool proven = principal.has_value();
  const Status ended =
      proven ? co_await serve_requests(core, std::move(*principal), connection) : principal.error();
  connection->close();
  if (proven && core.connection_ended) {
    // Calls that came over it before its end, and have not begun yet, begin first.
    co_await asio::post(core.runtime.executor, asio::use_awaitable);
    if (!core.group.stopping()) core.connection_ended(connection->serial());
  }
  // A proven peer that leaves, and whatever fails because this server stops, is no news.
  bool malformed = ended.code() == Code::kCorrupt || ended.code() == Code::kLimitExceeded;
  if (core.group.stopping() || (proven && !malformed)) co_return;
  const auto left_out = core.complaints.allow(core.runtime.clock.now());
  if (!left_out) co_return;
  const std::string more =
      *left_out == 0 ? "" : fmt::format(" ({} more of the kind were not logged)", *left_out);
  log::warning("rpc: closing connection from {}: {}{}", connection->peer(), ended.message(), more);
}

}  // namespace kintsugi::rpc
