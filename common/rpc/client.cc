#include "common/rpc/client.h"

#include "common/rpc/peer_pool.h"
#include "common/runtime/fault_points.h"
#include "common/runtime/span.h"

namespace kintsugi::rpc {
namespace {

using runtime::RegionKind;
using runtime::WaitKind;

/// A call as its caller waits for it: a span of its own, by which the callee's task is found.
struct CallSpan : runtime::Span {
  CallSpan(const Context& context, const runtime::Endpoint& to, Method method, std::source_location where)
      : Span(
            context, call_site(method),
            {.kind = RegionKind::kWait, .wait = WaitKind::kCall, .target = runtime::peer_target(context, to)},
            where) {}
};

asio::awaitable<Result<std::string>> send(std::shared_ptr<PeerPool> shared, Context context,
                                          runtime::Endpoint to, Method method, FrameBody request,
                                          std::source_location where = std::source_location::current()) {
  CallSpan span(context, to, method, where);
  PeerPool& pool = *shared;
  if (pool.stopped()) co_return span.finish({Code::kCancelled, "client stopped"});
  TimePoint now = pool.runtime().clock.now();
  TimePoint deadline = context.deadline;
  if (deadline == TimePoint::max()) deadline = now + pool.limits().default_call_limit;
  if (deadline <= now)
    co_return span.finish({Code::kDeadlineExceeded, to.to_string() + ": deadline passed before the call"});
  const Lane lane = lane_of(method);
  std::shared_ptr<ControlConnection> control = pool.find_control(to, lane);
  if (!control) {
    auto dialled = co_await pool.dial_control(to, lane, deadline);
    if (!dialled) co_return span.finish(dialled.error());
    control = std::move(*dialled);
  }
  Result<std::string> answer =
      co_await control->call(span.context().trace, deadline, method, request, context.followed);
  for (const Method repeated : control->take_repeated())
    runtime::complain_of(span.context(), to, static_cast<uint16_t>(repeated));
  if (!answer) span.set_code(answer.error().code());
  co_return answer;
}

/// A stream has a connection of its own. The peer hears of one that is followed on that for calls.
asio::awaitable<void> announce(PeerPool& pool, const Context& context, runtime::Endpoint to, CallName call) {
  if (context.followed == 0 || follower() == nullptr || pool.stopped()) co_return;
  std::shared_ptr<ControlConnection> control = pool.find_control(to, Lane::kCalls);
  if (!control) {
    auto dialled = co_await pool.dial_control(to, Lane::kCalls, context.deadline);
    if (!dialled) co_return;  // the stream does not reach it either, and says so
    control = std::move(*dialled);
  }
  co_await control->announce(call, context.followed, context.deadline);
}

}  // namespace

struct Client::State {
  std::shared_ptr<PeerPool> pool;
  uint64_t next_stream_id = 1;
};

Client::Client(const runtime::Runtime& runtime, Secret secret, ClientLimits limits)
    : state_(std::make_shared<State>(State{std::make_shared<PeerPool>(runtime, secret, limits)})) {}

Client::~Client() = default;

asio::awaitable<Result<std::string>> Client::call_raw(Context context, runtime::Endpoint to, Method method,
                                                      std::string request) {
  co_return co_await send(state_->pool, context, std::move(to), method, FrameBody(std::string_view(request)));
}

asio::awaitable<Status> Client::call(Context context, runtime::Endpoint to, Method method,
                                     const google::protobuf::MessageLite& request,
                                     google::protobuf::MessageLite& response, std::source_location where) {
  KINTSUGI_FAULT_POINT(context.faults, runtime::FaultPoint::kCall, method_name(method));
  const Result<std::string> bytes =
      co_await send(state_->pool, context, std::move(to), method, request, where);
  if (!bytes) co_return bytes.error();
  if (!response.ParseFromString(*bytes)) co_return Status{Code::kCorrupt, "response does not parse"};
  co_return Status{};
}

asio::awaitable<Result<std::unique_ptr<Stream>>> Client::open_stream(
    Context context, runtime::Endpoint to, Method method, const google::protobuf::MessageLite& request,
    std::source_location where) {
  auto state = state_;
  PeerPool& pool = *state->pool;
  runtime::Clock& clock = pool.runtime().clock;
  // Until the first frame has left, a wait for the peer; then the stream marks what it waits for itself.
  auto span = std::make_unique<StreamSpan>(context, to, method, where);
  runtime::Wait opening(context, WaitKind::kSend, span->target(), span->context().trace.span_id, 0, where);
  if (pool.stopped()) co_return Status{Code::kCancelled, "client stopped"};
  if (context.deadline <= clock.now()) {
    co_return Status{Code::kDeadlineExceeded, to.to_string() + ": deadline passed before the call"};
  }
  std::shared_ptr<BufferedConnection> idle = pool.take_idle(to);
  if (idle) {
    const uint64_t id = state->next_stream_id++;
    co_await announce(pool, context, to, {idle->marks().connection(), id, method});
    auto stream = std::make_unique<Stream>(std::move(idle), clock, method, id, context.deadline);
    Status sent = co_await stream->send_request(span->context().trace, request);
    if (sent.ok()) {
      stream->record(context, std::move(span));
      co_return stream;
    }
    if (sent.code() != Code::kUnavailable) co_return opening.finish(std::move(sent));
    // The peer went away while the connection idled: nothing has reached it, so a new connection may carry the call.
  }
  auto connection = co_await pool.dial_stream(to, context.deadline);
  if (!connection) co_return opening.finish(connection.error());
  const uint64_t id = state->next_stream_id++;
  co_await announce(pool, context, to, {(*connection)->marks().connection(), id, method});
  auto stream = std::make_unique<Stream>(std::move(*connection), clock, method, id, context.deadline);
  KINTSUGI_CO_TRY(opening.finish(co_await stream->send_request(span->context().trace, request)));
  stream->record(context, std::move(span));
  co_return stream;
}

void Client::finish(runtime::Endpoint to, std::unique_ptr<Stream> stream) {
  std::shared_ptr<BufferedConnection> connection = stream->take_idle_connection();
  if (connection) state_->pool->give_back(to, std::move(connection));
}

size_t Client::connections() const {
  return state_->pool->connections();
}

asio::awaitable<void> Client::stop() {
  auto state = state_;
  co_await state->pool->stop();
}

}  // namespace kintsugi::rpc
