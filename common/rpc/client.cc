#include "common/rpc/client.h"

#include "common/rpc/peer_pool.h"

namespace kintsugi::rpc {
namespace {

asio::awaitable<Result<std::string>> send(std::shared_ptr<PeerPool> shared, Context context,
                                          runtime::Endpoint to, Method method, FrameBody request) {
  PeerPool& pool = *shared;
  if (pool.stopped()) co_return Status{Code::kCancelled, "client stopped"};
  TimePoint now = pool.runtime().clock.now();
  TimePoint deadline = context.deadline;
  if (deadline == TimePoint::max()) deadline = now + pool.limits().default_call_limit;
  if (deadline <= now)
    co_return Status{Code::kDeadlineExceeded, to.to_string() + ": deadline passed before the call"};
  std::shared_ptr<ControlConnection> control = pool.find_control(to);
  if (!control) {
    KINTSUGI_CO_ASSIGN(control, co_await pool.dial_control(to, deadline));
  }
  co_return co_await control->call(context.trace, deadline, method, request);
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
                                     google::protobuf::MessageLite& response) {
  const Result<std::string> bytes = co_await send(state_->pool, context, std::move(to), method, request);
  if (!bytes) co_return bytes.error();
  if (!response.ParseFromString(*bytes)) co_return Status{Code::kCorrupt, "response does not parse"};
  co_return Status{};
}

asio::awaitable<Result<std::unique_ptr<Stream>>> Client::open_stream(
    Context context, runtime::Endpoint to, Method method, const google::protobuf::MessageLite& request) {
  auto state = state_;
  PeerPool& pool = *state->pool;
  runtime::Clock& clock = pool.runtime().clock;
  if (pool.stopped()) co_return Status{Code::kCancelled, "client stopped"};
  if (context.deadline <= clock.now()) {
    co_return Status{Code::kDeadlineExceeded, to.to_string() + ": deadline passed before the call"};
  }
  std::shared_ptr<BufferedConnection> idle = pool.take_idle(to);
  if (idle) {
    auto stream =
        std::make_unique<Stream>(std::move(idle), clock, method, state->next_stream_id++, context.deadline);
    Status sent = co_await stream->send_request(context.trace, request);
    if (sent.ok()) co_return stream;
    if (sent.code() != Code::kUnavailable) co_return sent;
    // The peer went away while the connection idled: nothing has reached it, so a new connection may carry the call.
  }
  KINTSUGI_CO_ASSIGN(auto connection, co_await pool.dial_stream(to, context.deadline));
  auto stream = std::make_unique<Stream>(std::move(connection), clock, method, state->next_stream_id++,
                                         context.deadline);
  KINTSUGI_CO_TRY(co_await stream->send_request(context.trace, request));
  co_return stream;
}

void Client::finish(runtime::Endpoint to, std::unique_ptr<Stream> stream) {
  std::shared_ptr<BufferedConnection> connection = stream->take_idle_connection();
  if (connection) state_->pool->give_back(to, std::move(connection));
}

asio::awaitable<void> Client::stop() {
  auto state = state_;
  co_await state->pool->stop();
}

}  // namespace kintsugi::rpc
