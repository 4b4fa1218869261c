#include "common/rpc/server.h"

#include "common/log/log.h"
#include "common/rpc/change_faults.h"
#include "common/rpc/secret_status.h"
#include "common/rpc/server_connection.h"
#include "common/rpc/server_core.h"

namespace kintsugi::rpc {

namespace {

/// A peer that takes none of its responses for this long is cut off.
constexpr Duration kWriteStallLimit = 30s;
constexpr Duration kStallCheckInterval = 10s;

}  // namespace

struct Server::State : ServerCore {
  using ServerCore::ServerCore;
  std::unique_ptr<runtime::Listener> listener;
  bool refusing = false;  ///< whether max_connections are open, and that was logged

  asio::awaitable<void> accept_loop();
  asio::awaitable<void> watch_writes();
};

Server::Server(const runtime::Runtime& runtime, Secret secret, TraceRecorder* recorder, ServerLimits limits)
    : state_(std::make_shared<State>(runtime, secret, recorder, limits)) {
#ifdef KINTSUGI_FAULT_POINTS
  handle(Method::kChangeFaults, ChangeFaults(runtime.faults));
#else
  handle(Method::kChangeFaults, ChangeFaults(nullptr));
#endif
  handle(Method::kSecretStatus,
         SecretStatus(state_->secret, state_->uses, runtime.clock, state_->limits.signed_for));
}

Server::~Server() = default;

void Server::add(Method method, UnaryHandler handler) {
  auto index = static_cast<size_t>(method);
  KINTSUGI_ASSERT(index < kMethods && !state_->listener);
  state_->unary_handlers[index] = std::move(handler);
}

void Server::add(Method method, StreamHandler handler) {
  auto index = static_cast<size_t>(method);
  KINTSUGI_ASSERT(index < kMethods && !state_->listener);
  state_->stream_handlers[index] = std::move(handler);
}

void Server::on_connection_ended(std::function<void(uint64_t connection)> tell) {
  KINTSUGI_ASSERT(!state_->listener);
  state_->connection_ended = std::move(tell);
}

void Server::admit_tokens_by(Admit admit) {
  KINTSUGI_ASSERT(!state_->listener);
  state_->admit = std::move(admit);
}

void Server::refuse_tokens(std::unordered_set<uint64_t> ids) {
  state_->refused.replace(std::move(ids));
}

Status Server::check_token(const Principal& holder) const {
  return state_->refused.check(holder, state_->runtime.clock.wall_now());
}

Status Server::start(const runtime::Endpoint& at) {
  KINTSUGI_ASSERT(!state_->listener);
  KINTSUGI_ASSIGN(state_->listener, state_->runtime.network.listen(at));
  state_->group.spawn(state_->accept_loop());
  state_->group.spawn(state_->watch_writes());
  return {};
}

runtime::Endpoint Server::local_endpoint() const {
  KINTSUGI_ASSERT(state_->listener);
  return state_->listener->local_endpoint();
}

size_t Server::connections() const {
  return state_->connections->size();
}

Server::HeldBack Server::held_back() const {
  return {state_->peers->held_back(), state_->peers->times_held_back()};
}

const void* Server::code_of(Method method) const {
  if (const UnaryHandler* unary = state_->unary_handler(method))
    return reinterpret_cast<const void*>(unary->invoke);
  if (const StreamHandler* stream = state_->stream_handler(method))
    return reinterpret_cast<const void*>(stream->invoke);
  return nullptr;
}

asio::awaitable<void> Server::State::accept_loop() {
  while (!group.stopping()) {
    Result<std::unique_ptr<runtime::Connection>> accepted = co_await listener->accept();
    if (!accepted) {
      // True: the server stopped on purpose.
      const bool closed = group.stopping() || accepted.error().code() == Code::kCancelled;
      if (!closed) log::error("rpc: no longer accepting: {}", accepted.error().to_string());
      co_return;
    }
    if (group.stopping()) co_return;
    if (connections->size() >= limits.max_connections && !strangers.close_oldest()) {
      if (!refusing) log::warning("rpc: refusing connections: {} are open", limits.max_connections);
      refusing = true;
      (*accepted)->close();
      continue;
    }
    refusing = false;
    auto connection =
        std::make_shared<BufferedConnection>(std::move(*accepted), runtime.executor, connections);
    group.spawn(serve_connection(*this, std::move(connection)));
  }
}

asio::awaitable<void> Server::State::watch_writes() {
  while (co_await group.sleep_for(kStallCheckInterval))
    connections->close_stalled(runtime.clock.now() - kWriteStallLimit);
}

asio::awaitable<void> Server::stop() {
  auto state = state_;
  state->group.request_stop();
  if (state->listener) state->listener->close();
  state->connections->close_all();
  co_await state->group.join();
}

}  // namespace kintsugi::rpc
