#include <gtest/gtest.h>

#include "common/runtime/task_group.h"
#include "tests/expect_ok.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulator/sim_support.h"

namespace kintsugi::simulation {
namespace {

using runtime::Connection;

class SimNetworkTest : public testing::Test {
 protected:
  SimNetworkTest() { network_.set_latency(100us); }

  runtime::Network& host(const std::string& name) { return network_.host(name); }
  Pair connected(const std::string& from, const std::string& to) {
    return simulation_.run(connect(host(from), host(to), to));
  }
  double elapsed_seconds(TimePoint since) const {
    return std::chrono::duration<double>(simulation_.now() - since).count();
  }
  void finish() { simulation_.run(group_.join()); }

  Simulation simulation_{Simulation::seed_from_environment(1)};
  SimNetwork& network_ = simulation_.network();
  runtime::TaskGroup group_{simulation_.executor(), simulation_.clock()};
};

asio::awaitable<void> write_all(Connection& connection, std::span<const std::byte> bytes, Status& status) {
  status = co_await send(connection, bytes);
}

asio::awaitable<void> read_all(Connection& connection, std::span<std::byte> into, Status& status) {
  status = co_await connection.read_exact(into);
}

struct Transfer {
  Transfer(runtime::TaskGroup& group, Connection& from, Connection& to, size_t bytes, uint64_t seed = 5)
      : sent(random_bytes(bytes, seed)), received(bytes) {
    group.spawn(write_all(from, sent, written));
    group.spawn(read_all(to, received, read));
  }
  bool whole() const { return written.ok() && read.ok() && sent == received; }

  std::vector<std::byte> sent, received;
  Status written{Code::kInternal, "not done"}, read{Code::kInternal, "not done"};
};

TEST_F(SimNetworkTest, CarriesBytesInOrderAndThenTheEndOfTheStream) {
  Pair pair = connected("a", "b");
  Transfer transfer(group_, *pair.client, *pair.server, 10'000'001);
  finish();
  EXPECT_TRUE(transfer.whole());
  pair.client->close();
  std::array<std::byte, 8> rest;
  auto got = simulation_.run(pair.server->read_some(rest));
  ASSERT_TRUE(got) << got.error();
  EXPECT_EQ(*got, 0u);
  EXPECT_EQ(network_.bytes_received("b"), 10'000'001u);
}

TEST_F(SimNetworkTest, ATransferTakesItsBytesOverTheSlowestLink) {
  constexpr size_t kBytes = 64 << 20;
  network_.set_link("a", 25'000'000, 0);
  network_.set_link("b", 0, 50'000'000);
  Pair pair = connected("a", "b");
  const TimePoint start = simulation_.now();
  const uint64_t events = simulation_.events().events();
  Transfer transfer(group_, *pair.client, *pair.server, kBytes);
  finish();
  EXPECT_TRUE(transfer.whole());
  const double floor = kBytes / 25e6;
  EXPECT_NEAR(elapsed_seconds(start), floor, floor * 0.01);
  EXPECT_LT(simulation_.events().events() - events, 6 * 1024u);
}

TEST_F(SimNetworkTest, TwoFlowsIntoOneHostShareItsDownlinkFairly) {
  constexpr size_t kBytes = 16 << 20;
  network_.set_link("sink", 0, 25'000'000);
  Pair first = connected("a", "sink");
  Pair second = connected("b", "sink");
  const TimePoint start = simulation_.now();
  Transfer one(group_, *first.client, *first.server, kBytes);
  Transfer two(group_, *second.client, *second.server, kBytes);
  double one_done = 0;
  simulation_.run_until([&] { return one.read.ok(); });
  one_done = elapsed_seconds(start);
  finish();
  const double alone = kBytes / 25e6;
  EXPECT_NEAR(one_done, 2 * alone, 2 * alone * 0.01);
  EXPECT_NEAR(elapsed_seconds(start), 2 * alone, 2 * alone * 0.01);
  EXPECT_TRUE(one.whole() && two.whole());
}

TEST_F(SimNetworkTest, ASmallMessageDoesNotWaitBehindAllOfABigOne) {
  network_.set_link("sink", 0, 10'000'000);
  Pair bulk = connected("a", "sink");
  Pair control = connected("b", "sink");
  Transfer big(group_, *bulk.client, *bulk.server, 4 << 20);
  simulation_.run_for(50ms);
  const TimePoint start = simulation_.now();
  Transfer small(group_, *control.client, *control.server, 100);
  simulation_.run_until([&] { return small.read.ok(); });
  EXPECT_LT(elapsed_seconds(start), 0.02);
  finish();
}

TEST_F(SimNetworkTest, AWriterWaitsForAReaderThatDoesNotRead) {
  Pair pair = connected("a", "b");
  const auto bytes = random_bytes(3 * Stream::kWindowBytes, 1);
  Status status{Code::kInternal, "not done"};
  group_.spawn(write_all(*pair.client, bytes, status));
  simulation_.run_for(10s);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_EQ(network_.bytes_received("b"), Stream::kWindowBytes);
  std::vector<std::byte> received(bytes.size());
  KINTSUGI_EXPECT_OK(simulation_.run(pair.server->read_exact(received)));
  EXPECT_EQ(received, bytes);
  finish();
  KINTSUGI_EXPECT_OK(status);
}

TEST_F(SimNetworkTest, LossDelaysButKeepsOrderAndBytes) {
  network_.set_loss(0.2);
  Pair pair = connected("a", "b");
  const TimePoint start = simulation_.now();
  Transfer transfer(group_, *pair.client, *pair.server, 5 << 20);
  finish();
  EXPECT_TRUE(transfer.whole());
  EXPECT_GT(elapsed_seconds(start), 0.2);
}

TEST_F(SimNetworkTest, RefusesADialWhereNobodyListens) {
  host("b");
  auto result = simulation_.run(host("a").dial({"b", 99}, TimePoint::max()));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::kUnavailable);
  EXPECT_NE(result.error().message().find("refused"), std::string::npos);
}

TEST_F(SimNetworkTest, ADialAcrossAPartitionEndsAtItsDeadlineOrConnectsOnceHealed) {
  auto listener = host("b").listen({"b", 80});
  ASSERT_TRUE(listener);
  EXPECT_EQ(host("b").listen({"b", 80}).error().code(), Code::kAlreadyExists);
  network_.partition({{"a"}, {"b"}});
  const TimePoint start = simulation_.now();
  auto failed = simulation_.run(host("a").dial({"b", 80}, start + 3s));
  EXPECT_EQ(failed.error().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(simulation_.now() - start, 3s);

  std::optional<bool> connected;
  auto dial = [](runtime::Network& network, std::optional<bool>& done) -> asio::awaitable<void> {
    runtime::Endpoint to{"b", 80};
    auto result = co_await network.dial(std::move(to), TimePoint::max());
    done = static_cast<bool>(result);
  };
  group_.spawn(dial(host("a"), connected));
  simulation_.run_for(5s);
  EXPECT_FALSE(connected);
  network_.heal();
  simulation_.run_for(2s);
  EXPECT_EQ(connected, true);
}

TEST_F(SimNetworkTest, BytesWaitDuringAPartitionAndFlowWhenItHeals) {
  Pair pair = connected("a", "b");
  network_.partition({{"a"}, {"b"}});
  Transfer transfer(group_, *pair.client, *pair.server, 1000);
  simulation_.run_for(10s);
  EXPECT_FALSE(transfer.read.ok());
  EXPECT_EQ(network_.bytes_received("b"), 0u);
  network_.heal();
  simulation_.run_for(1s);
  EXPECT_TRUE(transfer.whole());
}

TEST_F(SimNetworkTest, AConnectionBreaksOnBothSidesWhenAPartitionLasts) {
  Pair pair = connected("a", "b");
  std::vector<std::byte> into(10);
  Status status;
  group_.spawn(read_all(*pair.server, into, status));
  network_.isolate("a");
  simulation_.run_for(14s);
  EXPECT_TRUE(pair.server->is_open() && pair.client->is_open());
  simulation_.run_for(2s);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_FALSE(pair.client->is_open());
  finish();
}

TEST_F(SimNetworkTest, AShortPartitionDoesNotCountTowardsTheNext) {
  Pair pair = connected("a", "b");
  network_.isolate("a");
  simulation_.run_for(10s);
  network_.heal();
  simulation_.run_for(1s);
  network_.isolate("a");
  simulation_.run_for(10s);
  EXPECT_TRUE(pair.client->is_open());
}

TEST_F(SimNetworkTest, ClosingWithUnreadBytesResetsThePeer) {
  Pair pair = connected("a", "b");
  KINTSUGI_EXPECT_OK(simulation_.run(send_text(*pair.client, "unread")));
  simulation_.run_for(1s);
  pair.server->close();
  std::vector<std::byte> into(10);
  EXPECT_EQ(simulation_.run(pair.client->read_exact(into)).code(), Code::kUnavailable);
  EXPECT_EQ(simulation_.run(send_text(*pair.client, "more")).code(), Code::kUnavailable);
}

TEST_F(SimNetworkTest, CloseEndsPendingOperationsOfThisSide) {
  Pair pair = connected("a", "b");
  std::vector<std::byte> into(10);
  Status read, written;
  const auto bytes = random_bytes(2 * Stream::kWindowBytes, 1);
  group_.spawn(read_all(*pair.client, into, read));
  group_.spawn(write_all(*pair.client, bytes, written));
  simulation_.run_for(1s);
  pair.client->close();
  finish();
  EXPECT_EQ(read.code(), Code::kCancelled);
  EXPECT_EQ(written.code(), Code::kCancelled);
}

TEST_F(SimNetworkTest, DroppedConnectionsFailOnBothSides) {
  Pair pair = connected("a", "b");
  network_.drop_connections("b");
  std::vector<std::byte> into(10);
  EXPECT_EQ(simulation_.run(pair.client->read_exact(into)).code(), Code::kUnavailable);
  EXPECT_EQ(simulation_.run(send_text(*pair.server, "x")).code(), Code::kUnavailable);
  EXPECT_EQ(network_.connections("b"), 0u);
}

TEST_F(SimNetworkTest, AKilledProcessEndsItsStreamsAfterWhatItWrote) {
  Pair pair = connected("a", "b");
  KINTSUGI_EXPECT_OK(simulation_.run(send_text(*pair.server, "last words")));
  network_.crash("b", /*power_loss=*/false);
  EXPECT_EQ(simulation_.run(send_text(*pair.server, "ghost")).code(), Code::kCancelled);
  EXPECT_EQ(simulation_.run(pair.listener->accept()).error().code(), Code::kCancelled);
  std::vector<std::byte> into(10);
  KINTSUGI_EXPECT_OK(simulation_.run(pair.client->read_exact(into)));
  EXPECT_EQ(simulation_.run(pair.client->read_exact(into)).code(), Code::kUnavailable);
  // The machine still answers.
  auto refused = simulation_.run(host("a").dial({"b", 80}, simulation_.now() + 5s));
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
}

TEST_F(SimNetworkTest, AMachineWithoutPowerSaysNothingUntilItIsBack) {
  Pair pair = connected("a", "b");
  const auto port = pair.listener->local_endpoint();
  Status status;
  std::vector<std::byte> into(10);
  group_.spawn(read_all(*pair.client, into, status));
  network_.crash("b", /*power_loss=*/true);
  simulation_.run_for(5s);
  EXPECT_TRUE(pair.client->is_open());
  EXPECT_EQ(simulation_.run(host("a").dial(port, simulation_.now() + 2s)).error().code(),
            Code::kDeadlineExceeded);
  EXPECT_EQ(simulation_.run(host("b").dial({"a", 1}, TimePoint::max())).error().code(), Code::kCancelled);
  network_.restart("b");
  finish();  // the reset
  EXPECT_EQ(status.code(), Code::kUnavailable);
  auto listener = host("b").listen(port);
  ASSERT_TRUE(listener) << listener.error();
  EXPECT_TRUE(simulation_.run(host("a").dial(port, TimePoint::max())));
}

TEST_F(SimNetworkTest, ADialThatIsPendingWhenItsHostCrashesIsCancelled) {
  auto listener = host("b").listen({"b", 80});
  network_.partition({{"a"}, {"b"}});
  std::optional<Status> status;
  auto dial = [](runtime::Network& network, std::optional<Status>& out) -> asio::awaitable<void> {
    runtime::Endpoint to{"b", 80};
    auto result = co_await network.dial(std::move(to), TimePoint::max());
    out = result ? Status{} : result.error();
  };
  group_.spawn(dial(host("a"), status));
  simulation_.run_for(1s);
  network_.crash("a", false);
  simulation_.run_for(1ms);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code(), Code::kCancelled);
}

}  // namespace
}  // namespace kintsugi::simulation
