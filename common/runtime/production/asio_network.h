/// The production network: TCP through Asio.
#pragma once

#include <boost/asio/io_context.hpp>

#include "common/runtime/network.h"
#include "common/runtime/production/tcp_losses.h"

namespace kintsugi::runtime {

/// Single-threaded: it belongs to the thread of `io`.
class AsioNetwork final : public Network {
 public:
  AsioNetwork(asio::io_context& io, Clock& clock) : io_(io), clock_(clock) {}

  /// Resolves names without blocking and tries each address in turn.
  asio::awaitable<Result<std::unique_ptr<Connection>>> dial(Endpoint to, TimePoint deadline,
                                                            TaskGroup* stops_with) override;
  /// A name is resolved inside the call: daemons listen once, at start.
  Result<std::unique_ptr<Listener>> listen(Endpoint at) override;

  /// What its connections lose. Connections keep it alive.
  const std::shared_ptr<TcpLosses>& losses() const { return losses_; }

 private:
  asio::io_context& io_;
  Clock& clock_;
  const std::shared_ptr<TcpLosses> losses_ = std::make_shared<TcpLosses>();
};

}  // namespace kintsugi::runtime
