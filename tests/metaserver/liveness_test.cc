// Who counts as alive, and what a restart of the metaserver makes of it.
#include "tests/expect_ok.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

proto::ServerState::Liveness liveness_of(MetaServerRig& rig, ServerId id) {
  for (const proto::ServerState& state : rig.server_states()) {
    if (state.server_id() == id.value) return state.liveness();
  }
  ADD_FAILURE() << "server " << id << " is not known";
  return proto::ServerState::DEAD;
}

TEST(Liveness, ASilentServerIsSuspectThenDeadAndMayReturn) {
  MetaServerRig rig;
  FakeServer& server = rig.servers[0];
  server.alive = false;
  rig.pass(2);
  EXPECT_EQ(liveness_of(rig, server.id), proto::ServerState::ALIVE);
  rig.pass(2);
  EXPECT_EQ(liveness_of(rig, server.id), proto::ServerState::SUSPECT);
  EXPECT_TRUE(rig.told.dead.empty());
  rig.pass(8);
  EXPECT_EQ(liveness_of(rig, server.id), proto::ServerState::DEAD);
  EXPECT_EQ(rig.told.dead, std::vector<ServerId>{server.id});
  EXPECT_EQ(rig.told.returned.size(), 0u);
  server.alive = true;
  rig.pass(1);
  EXPECT_EQ(liveness_of(rig, server.id), proto::ServerState::ALIVE);
  EXPECT_EQ(rig.told.returned, std::vector<ServerId>{server.id});
  EXPECT_EQ(rig.told.reported.back(), server.id) << "its chunks are counted anew";
  const size_t reports = rig.told.reported.size();
  rig.send_report(server);
  EXPECT_EQ(rig.told.reported.size(), reports) << "another report brings nobody back";
}

TEST(Liveness, ASuspectServerThatBeatsAgainNeverWasDead) {
  MetaServerRig rig;
  for (int round = 0; round < 5; ++round) {
    rig.servers[0].alive = false;
    rig.pass(6);
    rig.servers[0].alive = true;
    rig.pass(2);
  }
  EXPECT_TRUE(rig.told.dead.empty());
}

/// A process that answers at the address of a fake server.
class Answering {
 public:
  Answering(simulation::Simulation& simulation, const std::string& host)
      : simulation_(simulation), node_(simulation, host), server_(node_.runtime(), test_secret(), nullptr) {
    server_.handle(
        rpc::Method::kPing,
        [](Context, const proto::Empty&, proto::Empty&) -> asio::awaitable<Status> { co_return Status{}; });
    KINTSUGI_ASSERT(server_.start({host, 9000}).ok());
  }
  ~Answering() { simulation_.run(server_.stop()); }

 private:
  simulation::Simulation& simulation_;
  simulation::SimNode node_;
  rpc::Server server_;
};

TEST(Liveness, AServerWhoseProcessHasEndedIsSuspectAtOnceAndAliveWithItsNextHeartbeat) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f", 3));
  Answering lives(rig.simulation, "10.0.2.100");
  ASSERT_EQ(rig.servers[0].id, ServerId{100});
  rig.simulation.network().drop_connections("10.0.1.1");  // all heartbeats come over one
  rig.simulation.run_for(100ms);
  EXPECT_EQ(liveness_of(rig, rig.servers[0].id), proto::ServerState::ALIVE)
      << "it can be called: only its connection has ended";
  for (size_t i = 1; i < rig.servers.size(); ++i)
    EXPECT_EQ(liveness_of(rig, rig.servers[i].id), proto::ServerState::SUSPECT) << i;
  rig.pass(1);
  for (const FakeServer& server : rig.servers)
    EXPECT_EQ(liveness_of(rig, server.id), proto::ServerState::ALIVE);
  rig.pass(12);
  EXPECT_TRUE(rig.told.dead.empty());
  EXPECT_TRUE(rig.told.lost.empty()) << "nothing may be repaired because of it";
}

TEST(Liveness, AServerThatSpokeOverAnotherConnectionMeanwhileIsNotSuspect) {
  MetaServerRig rig(1, 3);
  ServerWatch watch(*rig.meta_runtime, test_secret(), rig.meta->state().servers.registry);
  const ServerId first = rig.servers[0].id, second = rig.servers[1].id;
  watch.heard(first, 7001);
  watch.heard(second, 7001);
  watch.heard(first, 7002);
  watch.connection_ended(7001);
  rig.simulation.run_for(100ms);
  EXPECT_EQ(liveness_of(rig, first), proto::ServerState::ALIVE);
  EXPECT_EQ(liveness_of(rig, second), proto::ServerState::SUSPECT);
  watch.connection_ended(7002);
  watch.heard(first, 7003);  // before anybody could call it
  rig.simulation.run_for(100ms);
  EXPECT_EQ(liveness_of(rig, first), proto::ServerState::ALIVE);
  watch.connection_ended(1234);
  rig.simulation.run(watch.stop());
}

TEST(Liveness, AServerThatTakesCallsAndNeverAnswersIsSuspectWithinASecond) {
  MetaServerRig rig(1, 3);
  Answering hangs(rig.simulation, "10.0.2.100");
  rig.simulation.network().cut("10.0.0.1", "10.0.2.100");
  rig.simulation.network().drop_connections("10.0.1.1");
  rig.simulation.run_for(900ms);
  EXPECT_EQ(liveness_of(rig, rig.servers[0].id), proto::ServerState::SUSPECT);
}

TEST(Liveness, GetsNoNewChunksWhileSuspect) {
  MetaServerRig rig(1, 6, 3);
  rig.servers[0].alive = false;
  rig.pass(5);
  for (int i = 0; i < 20; ++i) {
    const auto allocated = rig.allocate("/f");
    ASSERT_TRUE(allocated) << allocated.error();
    for (const auto& chunk : allocated->stripe().chunks())
      EXPECT_NE(chunk.server_id(), rig.servers[0].id.value);
  }
}

TEST(Liveness, ARestartDeclaresNobodyDeadBeforeTheGracePeriod) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f", 3));
  rig.servers[0].alive = false;
  rig.restart();
  const auto before = rig.open("/f");
  for (const auto& stripe : before->stripes()) {
    for (const auto& chunk : stripe.chunks())
      EXPECT_TRUE(chunk.available()) << "nothing is known against it yet";
  }
  rig.pass(9);
  EXPECT_TRUE(rig.told.dead.empty());
  EXPECT_TRUE(rig.told.lost.empty());
  rig.pass(3);
  EXPECT_EQ(rig.told.dead, std::vector<ServerId>{rig.servers[0].id});
  EXPECT_FALSE(rig.chunks_of(rig.servers[0].id).empty());
}

TEST(Liveness, AnOlderProcessOfAServerIsToldToStop) {
  MetaServerRig rig;
  FakeServer& server = rig.servers[0];
  server.incarnation = 2;
  server.registered = false;
  rig.heartbeat(server);
  ASSERT_TRUE(server.refusals.empty());
  for (const bool registered : {true, false}) {
    FakeServer old = server;
    old.incarnation = 1;
    old.registered = registered;
    old.wants_report = false;
    rig.heartbeat(old);
    ASSERT_EQ(old.refusals.size(), 1u);
    EXPECT_EQ(old.refusals[0].code(), Code::kAlreadyExists);
  }
  rig.heartbeat(server);
  EXPECT_TRUE(server.refusals.empty()) << server.refusals[0];
  rig.restart();
  FakeServer old = server;
  old.incarnation = 1;
  old.registered = false;
  rig.heartbeat(old);
  EXPECT_EQ(old.refusals.size(), 1u) << "the restart has not forgotten";
}

TEST(Liveness, AServerThatIsBeingStoppedGetsNothingNewAndIsAliveAgainWhenItIsBack) {
  MetaServerRig rig;
  FakeServer& server = rig.servers[0];
  const auto liveness = [&] { return rig.meta->state().servers.registry.find(server.id)->liveness; };
  server.leaving = true;
  rig.pass(20);
  EXPECT_EQ(liveness(), proto::ServerState::SUSPECT) << "it still says something, so that it is not dead";
  for (int i = 0; i < 20; ++i)
    KINTSUGI_EXPECT_OK(rig.put("/file" + std::to_string(i)));
  EXPECT_TRUE(server.chunks.empty());
  server.leaving = false;
  ++server.incarnation;
  server.registered = false;
  rig.heartbeat(server);
  EXPECT_EQ(liveness(), proto::ServerState::ALIVE);
  EXPECT_TRUE(rig.told.dead.empty()) << "nothing is repaired";
}

TEST(Liveness, ACallOfADeadProcessThatArrivesLateDisplacesNobody) {
  MetaServerRig rig;
  FakeServer& server = rig.servers[0];
  proto::RegisterServerRequest late;  // of a process that died before it was answered
  late.set_server_id(server.id.value);
  late.set_address("10.0.9.9:9000");
  late.set_incarnation(77);
  late.set_newest_format(proto::kNewestFormat);
  for (const uint64_t replaces : {uint64_t{0}, server.incarnation}) {
    ++server.incarnation;  // the process after it
    server.registered = false;
    rig.heartbeat(server);
    late.set_replaces(replaces);
    const auto answer = rig.call<proto::RegisterServerResponse>(rpc::Method::kRegisterServer, late);
    ASSERT_TRUE(answer) << answer.error();
    EXPECT_EQ(answer->replaces(), server.incarnation);
    rig.heartbeat(server);
    EXPECT_TRUE(server.refusals.empty()) << server.refusals[0];
    EXPECT_NE(rig.meta->state().servers.registry.find(server.id)->stored.address(), late.address());
  }
}

TEST(Liveness, APauseOfTheMetaserverIsNotHeldAgainstTheServers) {
  simulation::Simulation simulation(1);
  MetaServerOptions options;
  ServerRegistry registry(options, simulation.clock());
  simulation::MemoryStoreDisk disk;
  simulation::MemoryStore store(simulation.executor(), simulation.clock(), disk);
  Transaction transaction(store);
  proto::RegisterServerRequest request;
  request.set_server_id(1);
  request.set_address("10.0.0.1:1");
  request.set_incarnation(1);
  const auto before = registry.register_server(transaction, request);
  ASSERT_TRUE(before) << before.error();
  EXPECT_EQ(*before, ServerRegistry::Before::kUnknown);
  size_t died = registry.check_liveness().size();
  simulation.run_for(60s);  // stopped, then continued
  died += registry.check_liveness().size();
  EXPECT_EQ(died, 0u);
  EXPECT_EQ(registry.count(proto::ServerState::ALIVE), 1u);
  for (int i = 0; i < 44; ++i) {
    simulation.run_for(250ms);
    died += registry.check_liveness().size();
  }
  EXPECT_EQ(died, 1u);
}

TEST(Liveness, RefusesServersThatDescribeThemselvesBadly) {
  MetaServerRig rig;
  const auto refused = [&](auto change) {
    proto::RegisterServerRequest request;
    request.set_server_id(77);
    request.set_address("10.0.0.9:1");
    request.set_incarnation(1);
    request.set_newest_format(proto::kNewestFormat);
    change(request);
    return !rig.call<proto::RegisterServerResponse>(rpc::Method::kRegisterServer, request);
  };
  EXPECT_TRUE(refused([](auto& r) { r.set_server_id(0); }));
  EXPECT_TRUE(refused([](auto& r) { r.set_address("nonsense"); }));
  EXPECT_TRUE(refused([](auto& r) { r.set_rack(std::string(1000, 'r')); }));
  EXPECT_FALSE(refused([](auto&) {}));
}

}  // namespace
}  // namespace kintsugi::metaserver
