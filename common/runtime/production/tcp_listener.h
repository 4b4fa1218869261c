/// Accepts TCP connections, and keeps accepting when single ones fail or the process has no descriptor left.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include "common/runtime/event.h"
#include "common/runtime/network.h"
#include "common/runtime/production/tcp_losses.h"

namespace kintsugi::runtime {

class TcpListener final : public Listener {
 public:
  TcpListener(asio::ip::tcp::acceptor acceptor, Clock& clock, std::shared_ptr<TcpLosses> losses);

  asio::awaitable<Result<std::unique_ptr<Connection>>> accept() override;
  void close() override;
  Endpoint local_endpoint() const override { return local_; }

 private:
  asio::ip::tcp::acceptor acceptor_;
  Clock& clock_;
  const std::shared_ptr<TcpLosses> losses_;
  Endpoint local_;
  Event closed_;
  bool warned_ = false;  // a run of failures was logged already
};

}  // namespace kintsugi::runtime
