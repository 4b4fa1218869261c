#include "common/rpc/peer_pool.h"

#include "common/rpc/handshake.h"

namespace kintsugi::rpc {

Lane lane_of(Method method) {
  return method == Method::kKeepSession ? Lane::kSession : Lane::kCalls;
}

PeerPool::PeerPool(const runtime::Runtime& runtime, Secret secret, ClientLimits limits)
    : runtime_(runtime), secret_(secret), limits_(limits), group_(runtime) {}

std::shared_ptr<ControlConnection> PeerPool::find_control(const runtime::Endpoint& to, Lane lane) {
  auto peer = peers_.find({to, lane});
  if (peer == peers_.end() || !peer->second.control) return nullptr;
  secret_.shared().look(runtime_.clock.now());
  std::shared_ptr<ControlConnection>& control = peer->second.control;
  if (control->is_open() && !control->is_suspect() && control->proven_by() == secret_.shared().version())
    return control;
  // Calls that still wait on a suspect connection may yet be answered; new ones go elsewhere.
  control->retire();
  control = nullptr;
  return nullptr;
}

asio::awaitable<Result<std::shared_ptr<ControlConnection>>> PeerPool::dial_control(runtime::Endpoint to,
                                                                                   Lane lane,
                                                                                   TimePoint deadline) {
  auto self = shared_from_this();
  Peer& peer = peers_[{to, lane}];
  if (!peer.dial) {
    peer.dial = std::make_shared<Dial>(runtime_);
    group_.spawn(run_dial(self, {to, lane}, peer.dial));
  }
  std::shared_ptr<Dial> dial = peer.dial;
  while (!dial->done) {
    bool notified = co_await dial->ended.wait_until(deadline);
    if (!notified && !dial->done) {
      co_return Status{Code::kDeadlineExceeded, to.to_string() + ": not connected before the deadline"};
    }
  }
  if (!dial->status.ok()) co_return dial->status;
  co_return dial->control;
}

asio::awaitable<void> PeerPool::run_dial(std::shared_ptr<PeerPool> self, Key to, std::shared_ptr<Dial> dial) {
  TimePoint limit = self->runtime_.clock.now() + self->limits_.dial_limit;
  Result<std::shared_ptr<BufferedConnection>> connection = co_await self->dial(to.first, limit);
  // Looked up after the dial: the map may have changed meanwhile. sweep() keeps a peer that is being dialled.
  Peer& peer = self->peers_[to];
  peer.dial = nullptr;
  if (connection) {
    dial->control = std::make_shared<ControlConnection>(self->runtime_, std::move(*connection));
    dial->control->start(self->group_);
    peer.control = dial->control;
  } else {
    dial->status = connection.error();
  }
  dial->done = true;
  dial->ended.notify_all();
  self->arm_sweep();
}

asio::awaitable<Result<std::shared_ptr<BufferedConnection>>> PeerPool::dial(runtime::Endpoint to,
                                                                            TimePoint deadline) {
  if (stopped()) co_return Status{Code::kCancelled, "client stopped"};
  Result<std::unique_ptr<runtime::Connection>> dialled =
      co_await runtime_.network.dial(to, deadline, &group_);
  Status failure;
  if (!dialled) {
    failure = dialled.error();  // it names the address, as an error of the handshake does
  } else {
    auto connection = std::make_shared<BufferedConnection>(std::move(*dialled), runtime_.executor, registry_);
    if (stopped()) connection->close();
    secret_.shared().look(runtime_.clock.now());
    connection->set_proven_by(secret_.shared().version());
    failure = co_await prove_as_client(runtime_, secret_, connection, deadline);
    accepted_ |= failure.ok();
    if (failure.ok()) co_return connection;
    connection->close();
  }
  if (stopped()) co_return Status{Code::kCancelled, "client stopped"};
  if (failure.code() == Code::kPermissionDenied && !accepted_) co_return failure;
  co_return Status{Code::kUnavailable, "cannot connect to " + failure.message()};
}

asio::awaitable<Result<std::shared_ptr<BufferedConnection>>> PeerPool::dial_stream(runtime::Endpoint to,
                                                                                   TimePoint deadline) {
  auto self = shared_from_this();
  TimePoint limit = std::min(deadline, runtime_.clock.now() + limits_.dial_limit);
  Result<std::shared_ptr<BufferedConnection>> connection = co_await dial(to, limit);
  if (!connection && runtime_.clock.now() >= deadline) {
    co_return Status{Code::kDeadlineExceeded, connection.error().message()};
  }
  co_return connection;
}

std::shared_ptr<BufferedConnection> PeerPool::take_idle(const runtime::Endpoint& to) {
  auto peer = peers_.find({to, Lane::kCalls});
  if (peer == peers_.end()) return nullptr;
  secret_.shared().look(runtime_.clock.now());
  TimePoint oldest = runtime_.clock.now() - limits_.idle_limit;
  while (!peer->second.idle.empty()) {
    Idle idle = std::move(peer->second.idle.back());  // the one used last is the least likely to be gone
    peer->second.idle.pop_back();
    const bool good =
        idle.connection->is_quiet() && idle.connection->proven_by() == secret_.shared().version();
    if (good && idle.since > oldest) return std::move(idle.connection);
    idle.connection->close();
  }
  return nullptr;
}

void PeerPool::give_back(const runtime::Endpoint& to, std::shared_ptr<BufferedConnection> connection) {
  if (stopped() || !connection->is_quiet() || connection->is_watched()) return connection->close();
  std::deque<Idle>& idle = peers_[{to, Lane::kCalls}].idle;
  if (idle.size() >= limits_.max_idle_streams_per_peer) return connection->close();
  group_.spawn(BufferedConnection::watch(connection));
  idle.push_back({std::move(connection), runtime_.clock.now()});
  arm_sweep();
}

void PeerPool::arm_sweep() {
  if (sweep_timer_ != runtime::TimerId::kNone || stopped()) return;
  sweep_timer_ = runtime_.clock.call_at(runtime_.clock.now() + limits_.idle_limit, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->sweep();
  });
}

void PeerPool::sweep() {
  sweep_timer_ = runtime::TimerId::kNone;
  TimePoint oldest = runtime_.clock.now() - limits_.idle_limit;
  for (auto entry = peers_.begin(); entry != peers_.end();) {
    Peer& peer = entry->second;
    while (!peer.idle.empty() &&
           (peer.idle.front().since <= oldest || !peer.idle.front().connection->is_quiet())) {
      peer.idle.front().connection->close();
      peer.idle.pop_front();
    }
    if (peer.control && peer.control->last_used() <= oldest && !peer.control->has_calls())
      peer.control->retire();
    if (peer.control && !peer.control->is_open()) peer.control = nullptr;
    bool unused = !peer.control && !peer.dial && peer.idle.empty();
    entry = unused ? peers_.erase(entry) : std::next(entry);
  }
  if (!peers_.empty()) arm_sweep();
}

asio::awaitable<void> PeerPool::stop() {
  auto self = shared_from_this();
  if (sweep_timer_ != runtime::TimerId::kNone) runtime_.clock.cancel(sweep_timer_);
  sweep_timer_ = runtime::TimerId::kNone;
  group_.request_stop();
  for (auto& [endpoint, peer] : peers_) {
    if (peer.control) peer.control->close({Code::kCancelled, "client stopped"});
  }
  registry_->close_all();
  co_await group_.join();
  peers_.clear();
}

}  // namespace kintsugi::rpc
