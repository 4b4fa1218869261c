// Servers that leave: drained, undrained, removed. And which moves are wanted.
#include <set>

#include "tests/expect_ok.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

class Drain : public ::testing::Test {
 protected:
  Status drain(ServerId server, bool wanted = true) {
    proto::DrainServerRequest request;
    request.set_server_id(server.value);
    request.set_drain(wanted);
    const auto answer = rig.call<proto::Empty>(rpc::Method::kDrainServer, request);
    return answer ? Status{} : answer.error();
  }
  Status remove(ServerId server) {
    proto::RemoveServerRequest request;
    request.set_server_id(server.value);
    const auto answer = rig.call<proto::Empty>(rpc::Method::kRemoveServer, request);
    return answer ? Status{} : answer.error();
  }
  bool draining(ServerId server) {
    for (const proto::ServerState& state : rig.server_states())
      if (state.server_id() == server.value) return state.draining();
    return false;
  }
  bool known(ServerId server) {
    for (const proto::ServerState& state : rig.server_states())
      if (state.server_id() == server.value) return true;
    return false;
  }
  /// As a repair manager would: every wanted move is made.
  void make_moves() {
    std::set<ChunkId> made;  // some were told again
    for (const WantedMove& move : std::exchange(rig.told.moves, {})) {
      if (!made.insert(move.chunk).second) continue;
      EXPECT_EQ(rig.move(move.chunk, move.from, move.to), Status{}) << move.chunk;
    }
  }

  /// From now on a host is told that can be without repair managers.
  NotingHost& other_host() {
    host.emplace(rig.told);
    rig.meta->set_host(*host);
    return *host;
  }

  std::optional<NotingHost> host;  // outlives the metaserver
  MetaServerRig rig{1, 8, 4};
};

TEST_F(Drain, ADrainedServerGetsNothingNewAndAllItHoldsIsToMove) {
  for (int i = 0; i < 10; ++i)
    KINTSUGI_ASSERT_OK(rig.put("/f" + std::to_string(i), 2));
  const ServerId server = rig.servers[0].id;
  const size_t held = rig.chunks_of(server).size();
  ASSERT_GT(held, 0u);
  ASSERT_EQ(drain(server), Status{});
  EXPECT_TRUE(draining(server));
  for (int i = 0; i < 20; ++i) {
    const auto allocated = rig.allocate("/g");
    ASSERT_TRUE(allocated) << allocated.error();
    for (const auto& chunk : allocated->stripe().chunks())
      EXPECT_NE(chunk.server_id(), server.value);
  }
  rig.pass(1);
  std::set<ChunkId> wanted;
  for (const WantedMove& move : rig.told.moves) {
    EXPECT_EQ(move.from, server);
    wanted.insert(move.chunk);
  }
  EXPECT_EQ(wanted.size(), held);
  EXPECT_EQ(remove(server).code(), Code::kConflict);
  make_moves();
  EXPECT_TRUE(rig.chunks_of(server).empty());
  rig.pass(5);
  EXPECT_TRUE(rig.told.moves.empty());
  EXPECT_EQ(rig.servers[0].deleted.size(), held) << "the old copies are deleted";
  ASSERT_EQ(remove(server), Status{});
  EXPECT_FALSE(known(server));
}

TEST_F(Drain, ItOutlivesARestartAndEndsWithUndrain) {
  KINTSUGI_ASSERT_OK(rig.put("/f", 6));
  const ServerId server = rig.servers[0].id;
  ASSERT_EQ(drain(server), Status{});
  rig.restart();
  rig.pass(5);
  EXPECT_TRUE(draining(server));
  EXPECT_FALSE(rig.told.moves.empty());
  ASSERT_EQ(drain(server, false), Status{});
  rig.pass(1);
  EXPECT_EQ(rig.told.cancelled, std::vector<ServerId>{server});
  rig.told.moves.clear();
  rig.pass(15);
  EXPECT_TRUE(rig.told.moves.empty());
  EXPECT_FALSE(draining(server));
}

TEST_F(Drain, AMoveThatNobodyMakesIsToldAgain) {
  KINTSUGI_ASSERT_OK(rig.put("/f", 6));
  ASSERT_EQ(drain(rig.servers[0].id), Status{});
  rig.pass(2);
  const size_t told = rig.told.moves.size();
  ASSERT_GT(told, 0u);
  rig.pass(12);
  EXPECT_GE(rig.told.moves.size(), 2 * told);
}

TEST_F(Drain, WhileNoRepairManagerIsThereNoMoveIsWantedAndTheFirstOneIsToldAll) {
  for (int i = 0; i < 10; ++i)
    KINTSUGI_ASSERT_OK(rig.put("/f" + std::to_string(i), 2));
  const ServerId server = rig.servers[0].id;
  NotingHost& managers = other_host();
  managers.anybody = false;
  ASSERT_EQ(drain(server), Status{});
  rig.pass(2);
  EXPECT_TRUE(rig.told.moves.empty());
  managers.anybody = true;
  rig.pass(1);
  std::set<ChunkId> told;
  for (const WantedMove& move : rig.told.moves)
    told.insert(move.chunk);
  EXPECT_EQ(told.size(), rig.chunks_of(server).size());
}

TEST_F(Drain, OnlyAServerWithoutChunksThatIsDrainedOrDeadIsRemoved) {
  KINTSUGI_ASSERT_OK(rig.put("/f", 6));
  EXPECT_EQ(remove(ServerId{12345}).code(), Code::kNotFound);
  EXPECT_EQ(drain(ServerId{12345}).code(), Code::kNotFound);
  FakeServer& server = rig.servers[0];
  EXPECT_EQ(remove(server.id).code(), Code::kConflict) << "it is alive and not drained";
  server.alive = false;
  rig.pass(12);
  EXPECT_EQ(remove(server.id).code(), Code::kConflict) << "it is dead, but its chunks are not repaired";
  for (ChunkId chunk : rig.chunks_of(server.id))
    EXPECT_EQ(rig.move(chunk, server.id, ServerId{}), Status{});
  EXPECT_EQ(remove(server.id), Status{});
}

TEST_F(Drain, AChunkThatWasWrittenToAServerWhichIsRemovedBeforeTheSealIsNowhere) {
  const auto allocated = rig.allocate("/f");
  ASSERT_TRUE(allocated) << allocated.error();
  const proto::SealedStripe sealed = rig.write(*allocated, 300'000);
  FakeServer& server = rig.server(ServerId{sealed.stripe().chunks(1).server_id()});
  const ChunkId chunk{StripeId{sealed.stripe().stripe_id()}, 1};
  ASSERT_EQ(drain(server.id), Status{});
  ASSERT_EQ(remove(server.id), Status{}) << "no stripe has a chunk there";
  server.alive = false;
  ASSERT_TRUE(rig.commit(rig.commit_request("/f", allocated->upload_id(), {sealed})));
  // Where repair managers ask for all that is missing, whenever they or the metaserver start.
  EXPECT_EQ(rig.chunks_of(ServerId{}), std::vector<ChunkId>{chunk});
  ASSERT_FALSE(rig.told.lost.empty());
  EXPECT_EQ(rig.told.lost[0].first, chunk);
  EXPECT_EQ(rig.move(chunk, ServerId{}, ServerId{}), Status{});
}

TEST_F(Drain, ARemovedServerIsRefusedUntilItIsStartedAgain) {
  FakeServer& server = rig.servers[0];
  ASSERT_EQ(drain(server.id), Status{});
  ASSERT_EQ(remove(server.id), Status{});
  rig.pass(3);
  EXPECT_FALSE(known(server.id));
  rig.restart();
  rig.pass(3);
  EXPECT_FALSE(known(server.id)) << "also after a restart of the metaserver";
  EXPECT_FALSE(server.refusals.empty());
  for (const Status& refusal : server.refusals)
    EXPECT_EQ(refusal.code(), Code::kNotFound) << refusal;
  ++server.incarnation;
  server.registered = false;
  rig.pass(2);
  EXPECT_TRUE(known(server.id));
  EXPECT_FALSE(draining(server.id));
}

TEST_F(Drain, MovesFromTheFullestToTheEmptiestAreWantedUntilTheyAreAboutAlike) {
  for (int i = 0; i < 40; ++i)
    KINTSUGI_ASSERT_OK(rig.put("/f" + std::to_string(i), 2));
  for (FakeServer& server : rig.servers)
    server.free_bytes = 300ull << 30;
  rig.pass(5);
  EXPECT_TRUE(rig.told.moves.empty()) << "all are alike";
  FakeServer& fresh = rig.add_server(0);
  fresh.free_bytes = 900ull << 30;
  rig.pass(10);
  ASSERT_FALSE(rig.told.moves.empty());
  for (const WantedMove& move : rig.told.moves)
    EXPECT_EQ(move.to, fresh.id);
  rig.servers.back().free_bytes = 350ull << 30;
  rig.pass(2);
  make_moves();
  rig.pass(12);
  EXPECT_TRUE(rig.told.moves.empty()) << "within the tolerance";
}

TEST_F(Drain, ThatNobodyMovedChunksWhileNoRepairManagerWasThereIsHeldAgainstNoServer) {
  for (int i = 0; i < 40; ++i)
    KINTSUGI_ASSERT_OK(rig.put("/f" + std::to_string(i), 2));
  for (FakeServer& server : rig.servers)
    server.free_bytes = 300ull << 30;
  FakeServer& fresh = rig.add_server(0);
  fresh.free_bytes = 900ull << 30;
  rig.pass(10);
  ASSERT_FALSE(rig.told.moves.empty());
  NotingHost& managers = other_host();
  managers.anybody = false;
  rig.pass(150);
  managers.anybody = true;
  rig.told.moves.clear();
  rig.pass(3);
  EXPECT_FALSE(rig.told.moves.empty());
  for (const proto::ServerState& state : rig.server_states())
    EXPECT_FALSE(state.has_held_back()) << state.server_id();
}

}  // namespace
}  // namespace kintsugi::metaserver
