// Heartbeats tell about memory, heat and links.
#include "metaserver/chunks/cache_map.h"

#include <random>

#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

constexpr ServerId kServer{7}, kSecond{8};

ChunkId chunk(uint64_t stripe, uint32_t index = 0) {
  return {StripeId{stripe}, index};
}

void add_change(proto::HeartbeatRequest& heartbeat, ChunkId id, bool cached, float heat) {
  proto::CacheChange& change = *heartbeat.add_cache_changes();
  change.set_stripe_id(id.stripe.value);
  change.set_index(id.index);
  change.set_cached(cached);
  change.set_heat(heat);
}

struct CacheMapRig {
  simulation::Simulation simulation{1};
  simulation::SimNode node{simulation, "meta"};
  CacheMap map{node.runtime().clock};

  void tell(ServerId server, ChunkId id, bool cached, float heat, bool restated = false) {
    proto::HeartbeatRequest heartbeat;
    heartbeat.set_cache_restated(restated);
    add_change(heartbeat, id, cached, heat);
    map.apply(server, heartbeat);
  }
};

TEST(CacheMap, KnowsForEachServerWhatItWasTold) {
  CacheMapRig rig;
  rig.tell(kServer, chunk(1), true, 4);
  rig.tell(kServer, chunk(2), false, 2);
  rig.tell(kSecond, chunk(3), true, 0);
  EXPECT_TRUE(rig.map.cached(kServer, chunk(1)));
  EXPECT_FALSE(rig.map.cached(kServer, chunk(2)));
  EXPECT_FALSE(rig.map.cached(kSecond, chunk(1)));
  EXPECT_TRUE(rig.map.cached(kSecond, chunk(3)));
  EXPECT_NEAR(rig.map.heat(kServer, chunk(2)), 2, 1e-6);
  rig.simulation.run_for(2min);
  EXPECT_NEAR(rig.map.heat(kServer, chunk(1)), 1, 1e-6);
  rig.tell(kServer, chunk(1), false, 0);
  EXPECT_FALSE(rig.map.cached(kServer, chunk(1)));
  EXPECT_EQ(rig.map.cached_chunks(kServer), 0u);
  EXPECT_EQ(rig.map.size(), 2u);
}

TEST(CacheMap, ARestatementReplacesWhatWasKnown) {
  CacheMapRig rig;
  rig.tell(kServer, chunk(1), true, 4);
  rig.tell(kServer, chunk(2), true, 4, true);
  EXPECT_FALSE(rig.map.cached(kServer, chunk(1)));
  EXPECT_EQ(rig.map.heat(kServer, chunk(1)), 0);
  EXPECT_TRUE(rig.map.cached(kServer, chunk(2)));
  EXPECT_EQ(rig.map.cached_chunks(kServer), 1u);
}

TEST(CacheMap, KeepsTheHeatOfADeadServersChunksUntilItReturns) {
  CacheMapRig rig;
  rig.tell(kServer, chunk(1), true, 8);
  rig.tell(kServer, chunk(2), true, 0);
  rig.map.server_died(kServer);
  rig.simulation.run_for(30min);
  EXPECT_FALSE(rig.map.cached(kServer, chunk(1)));
  EXPECT_NEAR(rig.map.heat(kServer, chunk(1)), 8, 1e-6);
  EXPECT_EQ(rig.map.size(), 1u);
  rig.map.forget(kServer);
  EXPECT_EQ(rig.map.heat(kServer, chunk(1)), 0);
  EXPECT_EQ(rig.map.size(), 0u);
}

TEST(CacheMap, ForgetsWhatWentColdAndStaysWithinItsLimits) {
  CacheMapRig rig;
  proto::HeartbeatRequest flood;
  for (uint64_t id = 1; id <= 2 * CacheMap::kMaxChunksOfServer; ++id)
    add_change(flood, chunk(id), false, 1);
  rig.map.apply(kServer, flood);
  EXPECT_EQ(rig.map.size(), CacheMap::kMaxChunksOfServer);
  EXPECT_GT(rig.map.heat(kServer, chunk(1)), 0) << "what is known is not pushed out";
  rig.simulation.run_for(1h);
  proto::HeartbeatRequest later;
  for (uint64_t id = 1; id <= CacheMap::kMaxChunksOfServer / CacheMap::kSweepStep * 2; ++id)
    add_change(later, chunk(10'000'000 + id), false, 1);
  rig.map.apply(kServer, later);
  EXPECT_LE(rig.map.size(), static_cast<size_t>(later.cache_changes_size()));
}

TEST(CacheMap, CountsRightWhateverIsTold) {
  const uint64_t seed = simulation::Simulation::seed_from_environment(3);
  SCOPED_TRACE("KINTSUGI_SIM_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  CacheMapRig rig;
  std::map<std::pair<ServerId, ChunkId>, bool> model;
  for (int step = 0; step < 20'000; ++step) {
    const ServerId server{random() % 3 + 1};
    const ChunkId id = chunk(random() % 50);
    const bool cached = random() % 2 == 0;
    rig.tell(server, id, cached, static_cast<float>(random() % 3));
    model[{server, id}] = cached;
    if (random() % 500 == 0) {
      rig.map.forget(server);
      std::erase_if(model, [&](const auto& entry) { return entry.first.first == server; });
    }
    if (random() % 50 == 0) rig.simulation.run_for(1min);
  }
  for (uint64_t server = 1; server <= 3; ++server) {
    size_t cached = 0;
    for (const auto& [key, is] : model) {
      if (key.first != ServerId{server}) continue;
      cached += is ? 1 : 0;
      EXPECT_EQ(rig.map.cached(key.first, key.second), is);
    }
    EXPECT_EQ(rig.map.cached_chunks(ServerId{server}), cached);
  }
}

proto::ServerState state_of(MetaServerRig& rig, ServerId id) {
  for (const proto::ServerState& state : rig.server_states()) {
    if (state.server_id() == id.value) return state;
  }
  ADD_FAILURE() << "server " << id << " is not known";
  return {};
}

proto::HeartbeatRequest heartbeat_of(const FakeServer& server) {
  proto::HeartbeatRequest heartbeat;
  heartbeat.set_server_id(server.id.value);
  heartbeat.set_incarnation(server.incarnation);
  return heartbeat;
}

TEST(CacheHeartbeat, ServersAreShownWithWhatTheyTellOfLinksLoadAndMemory) {
  MetaServerRig rig;
  const ServerId id = rig.servers[0].id;
  proto::HeartbeatRequest heartbeat = heartbeat_of(rig.servers[0]);
  heartbeat.set_up_bytes_per_second(25'000'000);
  heartbeat.set_down_bytes_per_second(50'000'000);
  heartbeat.set_repair_bytes_per_second(123);
  heartbeat.set_busy(0.75);
  heartbeat.set_cache_restated(true);
  add_change(heartbeat, chunk(1), true, 3);
  ASSERT_TRUE(rig.call<proto::HeartbeatResponse>(rpc::Method::kHeartbeat, heartbeat));
  const proto::ServerState state = state_of(rig, id);
  EXPECT_EQ(state.up_bytes_per_second(), 25'000'000u);
  EXPECT_EQ(state.down_bytes_per_second(), 50'000'000u);
  EXPECT_EQ(state.repair_bytes_per_second(), 123u);
  EXPECT_EQ(state.busy(), 0.75);
  EXPECT_EQ(state.cached_chunks(), 1u);
  EXPECT_TRUE(rig.meta->state().servers.caches.cached(id, chunk(1)));
}

TEST(CacheHeartbeat, AServerThatRegistersAgainBeginsAnewAndADeadOneKeepsItsHeat) {
  MetaServerRig rig;
  FakeServer& server = rig.servers[0];
  proto::HeartbeatRequest heartbeat = heartbeat_of(server);
  add_change(heartbeat, chunk(1), true, 3);
  ASSERT_TRUE(rig.call<proto::HeartbeatResponse>(rpc::Method::kHeartbeat, heartbeat));
  server.alive = false;
  rig.pass(60);
  ASSERT_EQ(state_of(rig, server.id).liveness(), proto::ServerState::DEAD);
  EXPECT_FALSE(rig.meta->state().servers.caches.cached(server.id, chunk(1)));
  EXPECT_GT(rig.meta->state().servers.caches.heat(server.id, chunk(1)), 1.5);
  server.alive = true;
  server.registered = false;
  rig.pass(3);
  ASSERT_EQ(state_of(rig, server.id).liveness(), proto::ServerState::ALIVE);
  EXPECT_EQ(rig.meta->state().servers.caches.heat(server.id, chunk(1)), 0);
}

TEST(CacheHeartbeat, NamesPeersToProbeOtherThanTheServerItself) {
  MetaServerRig rig(1, 4);
  std::set<std::string> named;
  for (int i = 0; i < 60; ++i) {
    const auto answer =
        rig.call<proto::HeartbeatResponse>(rpc::Method::kHeartbeat, heartbeat_of(rig.servers[1]));
    ASSERT_TRUE(answer);
    named.insert(answer->probe_address());
  }
  EXPECT_FALSE(named.contains(state_of(rig, rig.servers[1].id).address()));
  EXPECT_FALSE(named.contains(""));
  MetaServerRig alone(1, 1);
  const auto answer =
      alone.call<proto::HeartbeatResponse>(rpc::Method::kHeartbeat, heartbeat_of(alone.servers[0]));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->probe_address(), "");
}

}  // namespace
}  // namespace kintsugi::metaserver
