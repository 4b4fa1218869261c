#include "common/runtime/tls/tls_network.h"

#include <cstdlib>

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>

#include "common/runtime/tls/tls_connection.h"
#include "common/runtime/tls/tls_credentials.h"

namespace kintsugi::runtime {
namespace {

bool is_from_here(const Connection& connection) {
  const auto peer = Endpoint::parse(connection.peer());
  return peer && is_loopback(peer->host);
}

std::unique_ptr<Connection> encrypted(std::unique_ptr<Connection> connection, TlsCredentials& credentials,
                                      TlsEnd end, std::string host, Clock& clock) {
  auto session =
      std::make_unique<TlsSession>(credentials.current(clock.now()), end, std::move(host), clock.wall_now());
  return std::make_unique<TlsConnection>(std::move(connection), std::move(session), end, clock);
}

}  // namespace

Result<TlsPolicy> tls_policy(const TlsFiles& files, bool require) {
  if (files.none()) return TlsPolicy{nullptr, require};
  KINTSUGI_ASSIGN(auto credentials, TlsCredentials::load(files));
  return TlsPolicy{std::move(credentials), require};
}

TlsFiles tls_files_of_environment() {
  const auto value_of = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::string(value == nullptr ? "" : value);
  };
  return {value_of("KINTSUGI_TLS_CERTIFICATE"), value_of("KINTSUGI_TLS_KEY"),
          value_of("KINTSUGI_TLS_AUTHORITY")};
}

bool is_loopback(const std::string& host) {
  boost::system::error_code is_name;
  const auto address = asio::ip::make_address(host, is_name);
  if (is_name) return false;
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  return address.is_loopback();
}

class TlsNetwork::TlsListener final : public Listener {
 public:
  TlsListener(std::unique_ptr<Listener> listener, TlsEnd end, const TlsNetwork& network)
      : listener_(std::move(listener)), end_(end), network_(network) {}

  asio::awaitable<Result<std::unique_ptr<Connection>>> accept() override {
    auto connection = co_await listener_->accept();
    if (!connection || is_from_here(**connection)) co_return connection;
    co_return encrypted(std::move(*connection), *network_.policy_.credentials, end_, "", network_.clock_);
  }
  void close() override { listener_->close(); }
  Endpoint local_endpoint() const override { return listener_->local_endpoint(); }

 private:
  std::unique_ptr<Listener> listener_;
  const TlsEnd end_;
  const TlsNetwork& network_;
};

TlsNetwork::TlsNetwork(Network& network, Clock& clock, TlsPolicy policy)
    : network_(network), clock_(clock), policy_(std::move(policy)) {}

TlsNetwork::~TlsNetwork() = default;

asio::awaitable<Result<std::unique_ptr<Connection>>> TlsNetwork::dial(Endpoint to, TimePoint deadline,
                                                                      TaskGroup* stops_with) {
  if (!policy_.credentials) return network_.dial(std::move(to), deadline, stops_with);
  return dial_encrypted(std::move(to), deadline, stops_with);
}

asio::awaitable<Result<std::unique_ptr<Connection>>> TlsNetwork::dial_encrypted(Endpoint to,
                                                                                TimePoint deadline,
                                                                                TaskGroup* stops_with) {
  auto connection = co_await network_.dial(to, deadline, stops_with);
  if (!connection || is_from_here(**connection)) co_return connection;
  co_return encrypted(std::move(*connection), *policy_.credentials, TlsEnd::kClient, to.host, clock_);
}

Result<std::unique_ptr<Listener>> TlsNetwork::listen(Endpoint at) {
  return listen_as(TlsEnd::kServer, std::move(at));
}

Result<std::unique_ptr<Listener>> TlsNetwork::listen_for_pages(Endpoint at) {
  return listen_as(TlsEnd::kPages, std::move(at));
}

Result<std::unique_ptr<Listener>> TlsNetwork::listen_as(TlsEnd end, Endpoint at) {
  auto listener = network_.listen(at);
  if (!listener) return listener;
  if (policy_.credentials)
    return std::unique_ptr<Listener>(new TlsListener(std::move(*listener), end, *this));
  if (!policy_.require || is_loopback((*listener)->local_endpoint().host)) return listener;
  return Status{
      Code::kInvalidArgument,
      fmt::format("listen on {}: other hosts reach this address, and without TLS everybody on the way reads "
                  "and changes what they send: set tls.certificate, tls.key and tls.authority (`kintsugi "
                  "cluster init` makes them), or tls.require = false on a network that you trust",
                  at.to_string())};
}

}  // namespace kintsugi::runtime
