#include "common/rpc/stream.h"

#include "common/rpc/error_frame.h"
#include "common/rpc/stream_state.h"

namespace kintsugi::rpc {
namespace {

constexpr size_t kMaxReadBytes = 1 << 20;  ///< the most bytes of one read, so that the watchdog sees progress
/// How long a server reads on, for the client's end frame, after it ended its own side.
constexpr Duration kConcludeLimit = 30s;

}  // namespace

Stream::Stream(std::shared_ptr<BufferedConnection> connection, runtime::Clock& clock, Method method,
               uint64_t request_id, TimePoint deadline)
    : state_(std::make_shared<State>(std::move(connection), clock, method, request_id, deadline)) {
  state_->watch();
}

Stream::~Stream() {
  if (state_->span && !state_->broken.ok()) state_->span->set_code(state_->broken.code());
  close();
  // Now, and not with the state, which a timer may keep for longer than the recorder lives.
  state_->span = nullptr;
  state_->sending = state_->receiving = {};
}

StreamSpan::StreamSpan(const Context& context, const runtime::Endpoint& to, Method method,
                       std::source_location where)
    : Span(context, call_site(method), {.kind = runtime::RegionKind::kFree}, where),
      target_(runtime::peer_target(context, to)) {}

void Stream::record(const Context& context, std::unique_ptr<StreamSpan> span) {
  belongs_to(context);
  state_->target = span->target();
  state_->target_span = span->context().trace.span_id;
  state_->span = std::move(span);
}

void Stream::record_upstream(const Context& context, uint64_t caller_span) {
  belongs_to(context);
  state_->send_wait = state_->receive_wait = runtime::WaitKind::kUpstream;
  state_->target_span = caller_span;
}

void Stream::belongs_to(const Context& context) {
  state_->sending = state_->receiving = context;
}

void Stream::receiving_belongs_to(const Context& context, bool idle) {
  state_->receiving = context;
  if (idle) state_->receive_wait = runtime::WaitKind::kIdle;
}

asio::awaitable<Status> Stream::send(const google::protobuf::MessageLite& header,
                                     std::span<const asio::const_buffer> payload) {
  return state_->send_frame({}, header, payload);
}

asio::awaitable<Status> Stream::send_end(const google::protobuf::MessageLite& header) {
  return state_->send_frame({.flags = kFlagEnd}, header, {});
}

asio::awaitable<Status> Stream::send_error(Status error) {
  KINTSUGI_ASSERT(!error.ok());
  const proto::ErrorDetail detail = encode_error(error);
  FrameHeader header{.flags = kFlagEnd, .status = error.code()};
  co_return co_await state_->send_frame(header, detail, {});
}

asio::awaitable<Status> Stream::send_request(const TraceContext& trace,
                                             const google::protobuf::MessageLite& request) {
  FrameHeader header{.flags = kFlagRequest,
                     .timeout_ms = timeout_ms(state_->clock.now(), state_->deadline),
                     .trace_id = trace.trace_id,
                     .span_id = trace.span_id,
                     .path = trace.path};
  return state_->send_frame(header, request, {});
}

asio::awaitable<Result<FrameHeader>> Stream::next_frame(google::protobuf::MessageLite* data,
                                                        google::protobuf::MessageLite* end) {
  State& state = *state_;
  if (!state.connection || state.received_end) {
    co_return Status{Code::kInvalidArgument, "receive after the end of the stream"};
  }
  KINTSUGI_CO_TRY(co_await discard_payload());
  runtime::Wait wait(state.receiving, state.receive_wait, state.target, state.target_span);
  state.begin_operation();
  Result<FrameView> frame = co_await state.connection->next_frame();
  if (!frame) wait.set_code(frame.error().code());
  if (!frame) co_return state.end_operation(frame.error());
  FrameHeader header = frame->header;
  if (header.request_id != state.request_id || header.method != state.method ||
      (header.flags & (kFlagStream | kFlagRequest)) != kFlagStream) {
    co_return state.end_operation({Code::kCorrupt, "a frame that does not belong to this stream"});
  }
  google::protobuf::MessageLite* message = (header.flags & kFlagEnd) != 0 ? end : data;
  Status error;
  if (header.status != Code::kOk) {
    error = decode_error(header.status, frame->message);
  } else if (message != nullptr &&
             !message->ParseFromArray(frame->message.data(), static_cast<int>(frame->message.size()))) {
    co_return state.end_operation({Code::kCorrupt, "a frame's header does not parse"});
  }
  state.connection->marks().received(header, frame->bytes() + header.payload_bytes);
  state.large = state.connection->take_large_frame();
  if (state.large) state.large.resize(frame->bytes());
  state.connection->consume(frame->bytes());
  state.payload_left = header.payload_bytes;
  state.received_end = (header.flags & kFlagEnd) != 0;
  Status ended = state.end_operation({});
  if (!error.ok()) co_return error.with_context(state.peer);
  co_return header;
}

asio::awaitable<Result<Stream::Received>> Stream::receive(google::protobuf::MessageLite& data,
                                                          google::protobuf::MessageLite& end) {
  Result<FrameHeader> header = co_await next_frame(&data, &end);
  if (!header) co_return header.error();
  co_return Received{header->payload_bytes, (header->flags & kFlagEnd) != 0};
}

asio::awaitable<Status> Stream::receive_payload(std::span<std::byte> into, Duration idle_limit) {
  State& state = *state_;
  runtime::Wait wait(state.receiving, state.receive_wait, state.target, state.target_span);
  if (into.size() > state.payload_left || !state.connection) {
    co_return Status{Code::kInvalidArgument, fmt::format("{} payload bytes wanted, the frame has {} left",
                                                         into.size(), state.payload_left)};
  }
  const size_t bytes = into.size();
  state.begin_operation();
  state.set_idle_limit(idle_limit);
  while (!into.empty()) {
    size_t part = std::min(into.size(), kMaxReadBytes);
    Status read = co_await state.connection->read_exact(into.first(part));
    if (!read.ok()) co_return wait.finish(state.end_operation(std::move(read)));
    state.last_progress = state.clock.now();
    state.payload_left -= static_cast<uint32_t>(part);
    into = into.subspan(part);
  }
  state.set_idle_limit(kStreamIdleLimit);
  runtime::advance(state.receiving, bytes);
  runtime::count_bytes(state.receiving, state.target, bytes, 0);
  co_return state.end_operation({});
}

asio::awaitable<Status> Stream::discard_payload() {
  if (state_->payload_left == 0) co_return Status{};
  std::vector<std::byte> sink(std::min<size_t>(state_->payload_left, kMaxReadBytes));
  while (state_->payload_left > 0) {
    size_t part = std::min<size_t>(state_->payload_left, sink.size());
    KINTSUGI_CO_TRY(co_await receive_payload(std::span(sink).first(part)));
  }
  co_return Status{};
}

asio::awaitable<Status> Stream::conclude(Status outcome) {
  State& state = *state_;
  if (!state.broken.ok()) co_return state.broken;
  state.set_deadline(state.clock.now() + kConcludeLimit);
  if (outcome.ok() && !state.sent_end) {
    outcome = Status{Code::kInternal, fmt::format("{}: handler sent no end", method_name(state.method))};
  }
  // An error after this side's end frame cannot be sent any more; the broken connection tells it.
  if (!outcome.ok() && state.sent_end) co_return outcome;
  if (!outcome.ok()) KINTSUGI_CO_TRY(co_await send_error(std::move(outcome)));
  while (!state.received_end) {
    Result<FrameHeader> header = co_await next_frame(nullptr, nullptr);
    if (!header && !state.received_end) co_return header.error();
  }
  co_return co_await discard_payload();
}

void Stream::close() {
  state_->close();
}

bool Stream::is_open() const {
  return state_->connection && state_->connection->is_open();
}

std::string Stream::peer() const {
  return state_->peer;
}

std::shared_ptr<BufferedConnection> Stream::take_idle_connection() {
  bool idle = state_->sent_end && state_->received_end && state_->payload_left == 0 && state_->pending == 0;
  if (!idle || !state_->broken.ok() || !is_open()) return nullptr;
  return std::move(state_->connection);
}

}  // namespace kintsugi::rpc
