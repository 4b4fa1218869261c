/// The client's connections: for each peer one control connection that all calls share, one for what keeps a session, and
/// idle ones for streams.
#pragma once

#include <deque>
#include <map>
#include <memory>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/rpc/buffered_connection.h"
#include "common/rpc/client.h"
#include "common/rpc/control_connection.h"
#include "common/rpc/secret.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::rpc {

/// Requests of one connection are read in their order, and a server that has enough of a client's requests in hand reads no more
/// of them. What says that the client lives does not wait behind those.
enum class Lane { kCalls, kSession };
Lane lane_of(Method method);

/// Shared by the client and its coroutines.
class PeerPool : public std::enable_shared_from_this<PeerPool> {
 public:
  PeerPool(const runtime::Runtime& runtime, Secret secret, ClientLimits limits);

  /// The open control connection, or null: then call dial_control. When this process has another secret or token than it
  /// proved with, new calls take a new connection, and the old one ends with the calls that it has.
  std::shared_ptr<ControlConnection> find_control(const runtime::Endpoint& to, Lane lane);
  /// Waits for a dial that is shared with everybody who wants the same peer. kUnavailable and
  /// kPermissionDenied name the peer; kDeadlineExceeded is the caller's own deadline.
  asio::awaitable<Result<std::shared_ptr<ControlConnection>>> dial_control(runtime::Endpoint to, Lane lane,
                                                                           TimePoint deadline);

  /// Takes an idle proven connection for a stream; null when there is none.
  std::shared_ptr<BufferedConnection> take_idle(const runtime::Endpoint& to);
  asio::awaitable<Result<std::shared_ptr<BufferedConnection>>> dial_stream(runtime::Endpoint to,
                                                                           TimePoint deadline);
  void give_back(const runtime::Endpoint& to, std::shared_ptr<BufferedConnection> connection);

  asio::awaitable<void> stop();
  size_t connections() const { return registry_->size(); }
  bool stopped() const { return group_.stopping(); }
  const runtime::Runtime& runtime() const { return runtime_; }
  const ClientLimits& limits() const { return limits_; }

 private:
  /// A dial under way and those who wait for it.
  struct Dial {
    explicit Dial(const runtime::Runtime& runtime) : ended(runtime) {}
    runtime::Event ended;
    bool done = false;
    Status status;
    std::shared_ptr<ControlConnection> control;
  };
  struct Idle {
    std::shared_ptr<BufferedConnection> connection;
    TimePoint since;
  };
  struct Peer {
    std::shared_ptr<ControlConnection> control;
    std::shared_ptr<Dial> dial;
    std::deque<Idle> idle;  ///< connections of Lane::kCalls without a call, the longest idle first
  };

  /// kPermissionDenied: the peer refuses this process or is refused, and so was every peer before. Whoever was accepted
  /// once has the right secret and certificate, and a certificate that expired will be renewed: from then on a refusal is
  /// kUnavailable, which callers try again.
  asio::awaitable<Result<std::shared_ptr<BufferedConnection>>> dial(runtime::Endpoint to, TimePoint deadline);
  using Key = std::pair<runtime::Endpoint, Lane>;
  static asio::awaitable<void> run_dial(std::shared_ptr<PeerPool> self, Key to, std::shared_ptr<Dial> dial);
  void arm_sweep();
  void sweep();

  runtime::Runtime runtime_;
  Secret secret_;
  ClientLimits limits_;
  std::shared_ptr<ConnectionRegistry> registry_ = std::make_shared<ConnectionRegistry>();
  runtime::TaskGroup group_;
  std::map<Key, Peer> peers_;
  bool accepted_ = false;  ///< one peer at least proved itself and accepted this process
  runtime::TimerId sweep_timer_ = runtime::TimerId::kNone;
};

}  // namespace kintsugi::rpc
