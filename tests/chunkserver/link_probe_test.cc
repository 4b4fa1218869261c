// Servers find out how fast their links are.
#include "chunkserver/service/link_rates.h"
#include "tests/chunkserver/cluster_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint64_t kMB = 1'000'000;

/// Servers that probe each other; the metaserver of the rig names peers only when told to.
struct ProbeRig : ClusterRig {
  explicit ProbeRig(size_t count) : ClusterRig(count) {
    for (size_t i = 0; i < count; ++i)
      stop_server(i);
  }
  void start(size_t i, bool probes, uint64_t configured = 0) {
    Options options;
    options.listen = endpoint(i);
    options.metaserver = {"meta", 7000};
    options.disks = {"/disk"};
    options.probe_links = probes;
    options.link_up_bytes_per_second = options.link_down_bytes_per_second = configured;
    servers[i].runtime = std::make_unique<runtime::Runtime>(servers[i].node->runtime());
    servers[i].server = std::make_unique<ChunkServer>(*servers[i].runtime, options, secret);
    KINTSUGI_ASSERT(simulation.run(servers[i].server->start()).ok());
  }
  void name_peer(size_t peer, Duration time) {
    meta.probe_address = endpoint(peer).to_string();
    simulation.run_for(time);
    meta.probe_address.clear();
  }
  const LinkRates& rates(size_t i) { return servers[i].server->link_rates(); }
};

TEST(LinkProbe, MeasuresEachDirectionOfAShapedLink) {
  ProbeRig rig(2);
  rig.simulation.network().set_link("server0", 25 * kMB, 12 * kMB);
  rig.start(1, false);
  rig.start(0, true);
  EXPECT_EQ(rig.rates(0).up(), 0u);
  rig.name_peer(1, 5s);
  ASSERT_GE(rig.rates(0).probes().size(), 1u);
  EXPECT_NEAR(static_cast<double>(rig.rates(0).up()), 25e6, 1.5e6);
  EXPECT_NEAR(static_cast<double>(rig.rates(0).down()), 12e6, 0.8e6);
  rig.simulation.run_for(2s);
  EXPECT_EQ(rig.meta.heartbeats.back().up_bytes_per_second(), rig.rates(0).up());
}

TEST(LinkProbe, ASlowPeerDoesNotMakeAFastServerLookSlow) {
  ProbeRig rig(4);
  for (const char* fast : {"server0", "server2", "server3"})
    rig.simulation.network().set_link(fast, 50 * kMB, 50 * kMB);
  rig.simulation.network().set_link("server1", 5 * kMB, 5 * kMB);
  for (size_t i = 1; i < 4; ++i)
    rig.start(i, false);
  rig.start(0, true);
  for (size_t peer : {2, 3, 1})
    rig.name_peer(peer, 4s);
  EXPECT_GE(rig.rates(0).probes().size(), 3u);
  EXPECT_NEAR(static_cast<double>(rig.rates(0).up()), 50e6, 3e6);
  EXPECT_NEAR(static_cast<double>(rig.rates(0).down()), 50e6, 3e6);
}

TEST(LinkProbe, CostsLittleAndComesBackOnlyEveryTenMinutes) {
  ProbeRig rig(2);
  rig.start(1, false);
  rig.start(0, true);
  rig.name_peer(1, 60s);
  const uint64_t first = rig.simulation.network().bytes_sent("server0");
  EXPECT_LE(first, 5 * 9 * kMB);
  rig.name_peer(1, 5min);
  EXPECT_LT(rig.simulation.network().bytes_sent("server0") - first, kMB);
  rig.name_peer(1, 15min);
  EXPECT_GT(rig.simulation.network().bytes_sent("server0") - first, 8 * kMB);
}

TEST(LinkProbe, AConfiguredRateIsNotMeasured) {
  ProbeRig rig(2);
  rig.start(1, false);
  rig.start(0, true, 7 * kMB);
  rig.name_peer(1, 20s);
  EXPECT_EQ(rig.rates(0).up(), 7 * kMB);
  EXPECT_EQ(rig.rates(0).down(), 7 * kMB);
  EXPECT_LT(rig.simulation.network().bytes_sent("server0"), kMB);
}

asio::awaitable<Status> ask_for_probe(ClusterRig& rig, size_t server, bool to_caller) {
  proto::ProbeLinkRequest request;
  request.set_bytes(8 << 20);
  request.set_to_caller(to_caller);
  auto stream =
      co_await rig.client.open_stream(Context{}, rig.endpoint(server), rpc::Method::kProbeLink, request);
  if (!stream) co_return stream.error();
  proto::ProbeLinkData data;
  auto frame = co_await (*stream)->receive(data);
  co_return frame ? Status{} : frame.error();
}

TEST(LinkProbe, IsRefusedWhileUsersAreServed) {
  ProbeRig rig(1);
  rig.start(0, false);
  KINTSUGI_ASSERT_OK(rig.simulation.run(ask_for_probe(rig, 0, true)));
  rig.simulation.run_for(1s);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), chunk_bytes(8 << 20, 1)));
  EXPECT_EQ(rig.simulation.run(ask_for_probe(rig, 0, true)).code(), Code::kLimitExceeded);
  rig.simulation.run_for(5s);
  KINTSUGI_EXPECT_OK(rig.simulation.run(ask_for_probe(rig, 0, true)));
}

asio::awaitable<Result<std::unique_ptr<rpc::Stream>>> open_probe(ClusterRig& rig) {
  proto::ProbeLinkRequest request;
  request.set_bytes(kProbeBytes);
  co_return co_await rig.client.open_stream(Context{}, rig.endpoint(0), rpc::Method::kProbeLink, request);
}

asio::awaitable<Status> send_empty_part(rpc::Stream& stream) {
  const proto::ProbeLinkData nothing;
  KINTSUGI_CO_TRY(co_await stream.send(nothing));
  proto::ProbeLinkDone done;
  auto answer = co_await stream.receive(done);
  co_return answer ? Status{} : answer.error();
}

TEST(LinkProbe, APeerThatSendsNothingDoesNotKeepTheServersProbe) {
  ProbeRig rig(1);
  rig.start(0, false);
  auto idle = rig.simulation.run(open_probe(rig));
  ASSERT_TRUE(idle) << idle.error();
  rig.simulation.run_for(5s);
  EXPECT_EQ(rig.simulation.run(ask_for_probe(rig, 0, true)).code(), Code::kLimitExceeded);
  rig.simulation.run_for(kProbeLimit);
  KINTSUGI_EXPECT_OK(rig.simulation.run(ask_for_probe(rig, 0, true)));
  rig.simulation.run_for(1s);
  auto empty = rig.simulation.run(open_probe(rig));
  ASSERT_TRUE(empty) << empty.error();
  EXPECT_EQ(rig.simulation.run(send_empty_part(**empty)).code(), Code::kInvalidArgument);
}

TEST(LinkProbe, AServerStopsWhileItProbes) {
  ProbeRig rig(2);
  rig.simulation.network().set_link("server0", 100'000, 100'000);
  rig.start(1, false);
  rig.start(0, true);
  rig.meta.probe_address = rig.endpoint(1).to_string();
  rig.simulation.run_for(2500ms);
  const TimePoint began = rig.simulation.now();
  rig.stop_server(0);
  EXPECT_LT(rig.simulation.now() - began, 5s);
}

TEST(LinkRates, AnIdleLinkThatWasNotProbedIsUnknownAndNotSlow) {
  simulation::Simulation simulation(1);
  simulation::SimNode node(simulation, "server");
  LinkTraffic traffic;
  LinkRates rates(node.runtime().clock, traffic, 0, 0);
  for (int i = 0; i < 100; ++i) {  // heartbeats
    traffic.sent(200, simulation.now());
    traffic.received(100, simulation.now());
    simulation.run_for(1s);
  }
  EXPECT_EQ(rates.up(), 0u);
  EXPECT_EQ(rates.down(), 0u);
}

TEST(LinkRates, AServerWithoutWorkOrProbesDoesNotCallItsLinkSlow) {
  ProbeRig rig(1);
  rig.start(0, false);
  rig.simulation.run_for(30s);
  EXPECT_EQ(rig.meta.heartbeats.back().up_bytes_per_second(), 0u);
  EXPECT_EQ(rig.meta.heartbeats.back().down_bytes_per_second(), 0u);
}

TEST(LinkRates, TrafficThatWasCarriedIsALowerBoundThatFades) {
  simulation::Simulation simulation(1);
  simulation::SimNode node(simulation, "server");
  LinkTraffic traffic;
  LinkRates rates(node.runtime().clock, traffic, 0, 0);
  simulation.run_for(10s);
  // A burst within a second is what socket buffers take.
  traffic.sent(100 * kMB, simulation.now());
  simulation.run_for(10s);
  EXPECT_EQ(rates.up(), 0u);
  rates.probed(kMB, kMB);
  for (int i = 0; i < 100; ++i) {
    traffic.sent(kMB, simulation.now());
    traffic.received(2 * kMB, simulation.now());
    simulation.run_for(100ms);
  }
  EXPECT_NEAR(static_cast<double>(rates.up()), 10e6, 0.2e6);
  EXPECT_NEAR(static_cast<double>(rates.down()), 20e6, 0.4e6);
  simulation.run_for(SustainedPeak::kHalfLife);
  EXPECT_NEAR(static_cast<double>(rates.up()), 5e6, 0.2e6);
  rates.probed(8e6, 30e6);
  EXPECT_EQ(rates.up(), 8 * kMB);
}

TEST(RecentRate, FollowsTheLoadOfTheLastMoments) {
  RecentRate rate;
  TimePoint now{};
  for (int i = 0; i < 100; ++i, now += 10ms)
    rate.add(kMB, now);
  EXPECT_NEAR(rate.per_second(now), 100e6, 6e6);
  EXPECT_LT(rate.per_second(now + 1s), 1e6);
}

}  // namespace
}  // namespace kintsugi::chunkserver
