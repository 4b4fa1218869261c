// Connections are told how fast their link is, and again when that changes.
#include "chunkserver/service/metered_network.h"

#include <boost/asio/buffer.hpp>
#include <gtest/gtest.h>

#include "chunkserver/service/traffic.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::chunkserver {
namespace {

/// Always has bytes to read, and notes the rates that it is told.
class NotingConnection final : public runtime::Connection {
 public:
  explicit NotingConnection(std::vector<double>& rates) : rates_(rates) {}
  asio::awaitable<Result<size_t>> read_some(std::span<std::byte> into) override { co_return into.size(); }
  asio::awaitable<Status> read_exact(std::span<std::byte>) override { co_return Status{}; }
  asio::awaitable<Status> write(std::span<const asio::const_buffer>) override { co_return Status{}; }
  void expect_rate(double bytes_per_second) override { rates_.push_back(bytes_per_second); }
  void close() override {}
  bool is_open() const override { return true; }
  std::string peer() const override { return "peer"; }
  runtime::PeerProof peer_proof() const override { return runtime::PeerProof::kHost; }

 private:
  std::vector<double>& rates_;
};

class NotingNetwork final : public runtime::Network {
 public:
  asio::awaitable<Result<std::unique_ptr<runtime::Connection>>> dial(runtime::Endpoint, TimePoint,
                                                                     runtime::TaskGroup*) override {
    co_return std::make_unique<NotingConnection>(rates);
  }
  Result<std::unique_ptr<runtime::Listener>> listen(runtime::Endpoint) override {
    return Status{Code::kUnavailable, "nobody listens"};
  }
  std::vector<double> rates;
};

TEST(MeteredNetwork, TellsALongConnectionTheRateOfItsLinkAgainWhenThatHasChanged) {
  simulation::Simulation simulation(1);
  simulation::SimNode node(simulation, "here");
  const runtime::Runtime runtime = node.runtime();
  NotingNetwork network;
  LinkTraffic traffic;
  MeteredNetwork metered(network, runtime.clock, traffic);
  uint64_t rate = 0;
  metered.down_rate = [&rate] { return rate; };
  auto connection = simulation.run(metered.dial({"peer", 1}, TimePoint::max(), nullptr));
  ASSERT_TRUE(connection);
  const auto read_for = [&](Duration time) {
    simulation.run_for(time);
    std::array<std::byte, 100> bytes;
    EXPECT_TRUE(simulation.run((*connection)->read_exact(bytes)).ok());
  };
  read_for(2s);
  EXPECT_TRUE(network.rates.empty()) << "nobody knows it yet";
  rate = 100'000'000;
  read_for(2s);
  rate = 105'000'000;
  read_for(2s);
  EXPECT_EQ(network.rates, std::vector<double>{100e6}) << "that is the same link";
  rate = 25'000'000;
  read_for(2s);
  EXPECT_EQ(network.rates, (std::vector<double>{100e6, 25e6}));
}

}  // namespace
}  // namespace kintsugi::chunkserver
