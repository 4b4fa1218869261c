#include "chunkserver/service/metered_network.h"

#include <cmath>

#include <boost/asio/buffer.hpp>

namespace kintsugi::chunkserver {
namespace {

constexpr Duration kTellInterval = std::chrono::seconds(1);

}  // namespace

class MeteredNetwork::MeteredConnection : public runtime::Connection {
 public:
  MeteredConnection(std::unique_ptr<runtime::Connection> connection, Meter meter)
      : connection_(std::move(connection)), meter_(meter) {}

  asio::awaitable<Result<size_t>> read_some(std::span<std::byte> into) override {
    auto bytes = co_await connection_->read_some(into);
    if (bytes) received(*bytes);
    co_return bytes;
  }
  asio::awaitable<Status> read_exact(std::span<std::byte> into) override {
    Status status = co_await connection_->read_exact(into);
    if (status.ok()) received(into.size());
    co_return status;
  }
  asio::awaitable<Status> write(std::span<const asio::const_buffer> buffers) override {
    Status status = co_await connection_->write(buffers);
    if (status.ok()) meter_.traffic.sent(asio::buffer_size(buffers), meter_.clock.now());
    co_return status;
  }
  void close() override { connection_->close(); }
  bool is_open() const override { return connection_->is_open(); }
  std::string peer() const override { return connection_->peer(); }
  runtime::PeerProof peer_proof() const override { return connection_->peer_proof(); }

 protected:
  virtual void received(size_t bytes) { meter_.traffic.received(bytes, meter_.clock.now()); }

  std::unique_ptr<runtime::Connection> connection_;
  Meter meter_;
};

/// Tells the connection the rate of the link, again when it has changed by more than an eighth.
class MeteredNetwork::DialledConnection final : public MeteredConnection {
 public:
  /// `network` outlives it.
  DialledConnection(std::unique_ptr<runtime::Connection> connection, MeteredNetwork& network)
      : MeteredConnection(std::move(connection), network.meter_), network_(network) {
    tell_rate();
  }

 private:
  void received(size_t bytes) override {
    const TimePoint now = meter_.clock.now();
    meter_.traffic.received(bytes, now);
    if (now >= told_at_ + kTellInterval) tell_rate();
  }

  void tell_rate() {
    told_at_ = meter_.clock.now();
    const auto rate = static_cast<double>(network_.down_rate());
    if (rate == 0 || std::abs(rate - told_) <= told_ / 8) return;
    told_ = rate;
    connection_->expect_rate(rate);
  }

  MeteredNetwork& network_;
  TimePoint told_at_{};
  double told_ = 0;
};

class MeteredNetwork::MeteredListener final : public runtime::Listener {
 public:
  MeteredListener(std::unique_ptr<runtime::Listener> listener, Meter meter)
      : listener_(std::move(listener)), meter_(meter) {}

  asio::awaitable<Result<std::unique_ptr<runtime::Connection>>> accept() override {
    auto connection = co_await listener_->accept();
    if (!connection) co_return connection.error();
    co_return std::make_unique<MeteredConnection>(std::move(*connection), meter_);
  }
  void close() override { listener_->close(); }
  runtime::Endpoint local_endpoint() const override { return listener_->local_endpoint(); }

 private:
  std::unique_ptr<runtime::Listener> listener_;
  Meter meter_;
};

asio::awaitable<Result<std::unique_ptr<runtime::Connection>>> MeteredNetwork::dial(
    runtime::Endpoint to, TimePoint deadline, runtime::TaskGroup* stops_with) {
  auto connection = co_await network_.dial(std::move(to), deadline, stops_with);
  if (!connection) co_return connection.error();
  co_return std::make_unique<DialledConnection>(std::move(*connection), *this);
}

Result<std::unique_ptr<runtime::Listener>> MeteredNetwork::listen(runtime::Endpoint at) {
  auto listener = network_.listen(std::move(at));
  if (!listener) return listener.error();
  return std::unique_ptr<runtime::Listener>(new MeteredListener(std::move(*listener), meter_));
}

}  // namespace kintsugi::chunkserver
