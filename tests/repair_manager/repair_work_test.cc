// Several chunks at once, moves, degraded reads, and what the history says when things go wrong.
#include <algorithm>

#include <gtest/gtest.h>

#include "common/proto/agreed_numbers.h"
#include "tests/expect_ok.h"
#include "tests/repair_manager/fake_cluster.h"

namespace kintsugi::repair_manager {
namespace {

proto::PlanReadRequest read_of(ChunkId chunk) {
  proto::PlanReadRequest request;
  request.set_stripe_id(chunk.stripe.value);
  request.set_index(chunk.index);
  request.set_length(1 << 20);
  return request;
}

std::set<uint64_t> servers_of(const google::protobuf::RepeatedPtrField<proto::RepairNode>& nodes) {
  std::set<uint64_t> servers;
  for (const proto::RepairNode& node : nodes) {
    servers.insert(node.server_id());
    servers.merge(servers_of(node.children()));
  }
  return servers;
}

/// Chunks in the order in which their repairs were called for.
std::vector<ChunkId> order(const FakeCluster& cluster) {
  std::vector<ChunkId> chunks;
  for (const auto& [when, request] : cluster.calls)
    chunks.push_back({StripeId{request.stripe_id()}, request.index()});
  return chunks;
}

TEST(RepairWork, AllLostChunksOfAStripeAreRebuiltInOnePass) {
  FakeCluster cluster(any_seed(), 14, {});
  const StripeId stripe = cluster.add_stripe(0);
  for (uint32_t index : {1u, 4u, 7u})
    cluster.lose({stripe, index});
  ASSERT_TRUE(cluster.wait_until_healthy());
  EXPECT_EQ(cluster.calls.size(), 1u);
  EXPECT_EQ(cluster.view.commits.size(), 3u);
  const auto history = cluster.manager.history(10);
  ASSERT_EQ(history.size(), 1u);
  EXPECT_EQ(history[0].kind(), proto::RepairRecord::REPAIR);
  EXPECT_EQ(std::set(history[0].indexes().begin(), history[0].indexes().end()),
            (std::set<uint32_t>{1, 4, 7}));
  const std::set<uint64_t> destinations(history[0].destinations().begin(), history[0].destinations().end());
  EXPECT_EQ(destinations.size(), 3u) << "each on a server of its own";
  EXPECT_EQ(history[0].helpers_size(), 6);
  EXPECT_EQ(cluster.manager.status().done(), 3u);
  EXPECT_EQ(cluster.manager.status().bytes_repaired(), 3u * (8 << 20));
}

TEST(RepairWork, TwoLossesThatAreToldOneAfterTheOtherAreRebuiltInOnePass) {
  FakeCluster cluster(any_seed(), 14, {});
  const StripeId stripe = cluster.add_stripe(0);
  cluster.view.lost = {{stripe, 1}, {stripe, 4}};
  cluster.manager.chunk_lost({stripe, 1}, "corrupt", /*delay_ok=*/false);
  cluster.simulation.run_for(10ms);
  ASSERT_EQ(cluster.calls.size(), 1u) << "the first is repaired before the second is told";
  cluster.manager.chunk_lost({stripe, 4}, "corrupt", /*delay_ok=*/false);
  ASSERT_TRUE(cluster.wait_until_healthy());
  cluster.simulation.run_for(2min);
  EXPECT_EQ(cluster.calls.size(), 1u);
  const auto history = cluster.manager.history(10);
  ASSERT_EQ(history.size(), 1u);
  EXPECT_EQ(std::set(history[0].indexes().begin(), history[0].indexes().end()), (std::set<uint32_t>{1, 4}));
  EXPECT_EQ(cluster.manager.status().done(), 2u);
}

TEST(RepairWork, TwoServersThatDieTogetherAreToldOneAfterTheOtherAndEachStripeIsRepairedOnce) {
  FakeCluster cluster(any_seed(), 14, {.delay = 10min});
  for (size_t i = 0; i < 4; ++i)
    cluster.add_stripe(0);
  const ServerId first{1}, second{2};
  for (const ServerId server : {first, second}) {
    cluster.servers.at(server)->crash();
    cluster.view.all_servers.at(server).alive = false;
  }
  cluster.manager.server_dead(first, cluster.view.chunks_of(first), {});
  cluster.simulation.run_for(10ms);
  EXPECT_EQ(cluster.calls.size(), 4u) << "with one spare chunk left, no stripe waits";
  cluster.manager.server_dead(second, cluster.view.chunks_of(second), {});
  ASSERT_TRUE(cluster.wait_until_healthy());
  cluster.simulation.run_for(2min);
  EXPECT_EQ(cluster.calls.size(), 4u);
  EXPECT_EQ(cluster.manager.status().done(), 8u);
}

TEST(RepairWork, AServerThatReturnsIsRepairedNoFurtherThoughItsDeathWasNotToldYet) {
  FakeCluster cluster(any_seed(), 14, {.delay = 10min, .max_running = 1});
  for (size_t i = 0; i < 4; ++i)
    cluster.add_stripe(0);
  const ServerId first{1}, second{2};
  for (const ServerId server : {first, second})
    cluster.view.all_servers.at(server).alive = false;
  cluster.manager.server_dead(first, cluster.view.chunks_of(first), {});
  cluster.simulation.run_for(10ms);
  ASSERT_EQ(cluster.calls.size(), 1u) << "three wait";
  cluster.manager.server_dead(second, cluster.view.chunks_of(second), {});
  cluster.set_alive(second, true);
  EXPECT_LE(cluster.manager.status().queued(), 3u) << "what is on the server that is back waits for nothing";
}

TEST(RepairWork, WhatCouldNotBeCommittedIsRepairedAgainAndTheRestIsNot) {
  FakeCluster cluster(any_seed(), 14, {});
  const StripeId stripe = cluster.add_stripe(0);
  cluster.view.refused = {{stripe, 4}};
  for (uint32_t index : {1u, 4u})
    cluster.lose({stripe, index});
  ASSERT_TRUE(cluster.wait_until_healthy());
  const auto history = cluster.manager.history(10);
  ASSERT_EQ(history.size(), 2u);
  EXPECT_EQ(history[1].outcome(), proto::RepairRecord::FAILED);
  EXPECT_NE(history[1].detail().find("1 of 2 chunks committed"), std::string::npos) << history[1].detail();
  EXPECT_NE(history[1].detail().find("the store is slow"), std::string::npos) << history[1].detail();
  EXPECT_EQ(history[0].outcome(), proto::RepairRecord::DONE);
  ASSERT_EQ(history[0].indexes_size(), 1);
  EXPECT_EQ(history[0].indexes(0), 4u);
}

TEST(RepairWork, AChunkWhoseNewServerDiesBeforeTheRepairOfItsStripeEndsIsRepairedAgain) {
  FakeCluster cluster(any_seed(), 14, {});
  const StripeId stripe = cluster.add_stripe(0);
  size_t kills = 0;
  cluster.view.on_commit = [&](ChunkId, ServerId server) {
    if (kills++ == 0) cluster.set_alive(server, false);
  };
  for (uint32_t index : {1u, 4u})
    cluster.lose({stripe, index});
  EXPECT_TRUE(cluster.wait_until_healthy(1min));
  EXPECT_EQ(cluster.view.commits.size(), 3u);
  EXPECT_EQ(cluster.view.commits.back().first, cluster.view.commits.front().first);
}

TEST(RepairWork, WhatTurnsOutToBeUnrepairableWhenItIsScheduledIsPutAsideOnce) {
  FakeCluster cluster(any_seed(), 12, {.max_per_server = 1});
  std::vector<StripeId> stripes;
  for (int i = 0; i < 4; ++i)
    stripes.push_back(cluster.add_stripe(0));
  for (StripeId stripe : stripes)
    cluster.lose({stripe, 0});
  cluster.simulation.run_for(500ms);
  ASSERT_EQ(cluster.calls.size(), 1u) << "one fills the servers; the others were looked at";
  std::erase(stripes, StripeId{cluster.calls[0].second.stripe_id()});
  for (StripeId stripe : stripes)
    for (uint32_t index : {3u, 4u, 5u})
      cluster.view.lost.insert({stripe, index});  // nobody has told yet
  cluster.simulation.run_for(3s);
  EXPECT_EQ(cluster.manager.status().unrepairable(), 3u);
  std::erase_if(cluster.view.lost, [](ChunkId chunk) { return chunk.index != 0; });
  EXPECT_TRUE(cluster.wait_until_healthy());
}

TEST(RepairWork, AMoveThatFailedIsLeftToWhoWantedIt) {
  FakeCluster cluster(any_seed(), 12, {});
  const StripeId stripe = cluster.add_stripe(0);
  for (uint64_t id : {10, 11, 12})
    cluster.server(id).verdict = [](const auto&) { return Status{Code::kIoError, "disk"}; };
  cluster.manager.move_wanted({stripe, 0}, ServerId{1}, "drain");
  cluster.simulation.run_for(1min);
  EXPECT_EQ(cluster.calls.size(), 1u);
  EXPECT_EQ(cluster.manager.moves(), 0u);
}

TEST(RepairWork, WhenOnlyOneDestinationIsLeftTheChunksAreRebuiltOneAfterAnother) {
  FakeCluster cluster(any_seed(), 10, {});
  const StripeId stripe = cluster.add_stripe(0);
  cluster.set_alive(ServerId{1}, false);
  cluster.set_alive(ServerId{2}, false);
  cluster.simulation.run_for(1min);
  EXPECT_EQ(cluster.view.available_chunks(stripe), 8u);
  cluster.set_alive(ServerId{2}, true);
  EXPECT_TRUE(cluster.wait_until_healthy());
}

TEST(RepairWork, RunRebuildsSeveralChunksInOnePass) {
  FakeCluster cluster(any_seed(), 14, {});
  const StripeId stripe = cluster.add_stripe(0);
  const auto record = cluster.run({stripe, {2, 5}, {.destination = ServerId{12}}});
  ASSERT_TRUE(record) << record.error();
  EXPECT_EQ(record->indexes_size(), 2);
  EXPECT_EQ(record->detail().find("again"), std::string::npos) << record->detail();
  EXPECT_NE(
      record->detail().find(fmt::format(
          "chunk {}:2 was not lost: rebuilt from the others, it moves from server 3 to server 12", stripe)),
      std::string::npos)
      << record->detail();
  EXPECT_EQ(cluster.view.stripes.at(stripe).chunks[2].server, ServerId{12});
  EXPECT_EQ(cluster.calls.size(), 1u);
  EXPECT_EQ(cluster.run({stripe, {2, 2}, {}}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(cluster.run({stripe, {}, {}}).error().code(), Code::kInvalidArgument);
}

TEST(RepairWork, AServerThatReturnsDuringTheRepairIsNotedAndTheChunkIsInOnePlace) {
  FakeCluster cluster(any_seed(), 12, {});
  const StripeId stripe = cluster.add_stripe(0);
  cluster.set_alive(ServerId{1}, false);
  cluster.simulation.run_for(500ms);
  cluster.set_alive(ServerId{1}, true);
  cluster.simulation.run_for(1min);
  const auto history = cluster.manager.history(10);
  ASSERT_EQ(history.size(), 1u);
  EXPECT_EQ(history[0].outcome(), proto::RepairRecord::DONE);
  EXPECT_NE(history[0].detail().find("was available on server 1 again"), std::string::npos);
  EXPECT_NE(cluster.view.stripes.at(stripe).chunks[0].server, ServerId{1});
  EXPECT_EQ(cluster.view.commits.size(), 1u);
}

TEST(RepairWork, AStripeDeletedDuringItsRepairIsNotRepairedAgain) {
  FakeCluster cluster(any_seed(), 12, {});
  const StripeId stripe = cluster.add_stripe(0);
  cluster.lose({stripe, 0});
  cluster.simulation.run_for(500ms);
  cluster.view.stripes.erase(stripe);
  cluster.manager.stripe_deleted(stripe);
  cluster.simulation.run_for(5min);
  const auto history = cluster.manager.history(10);
  ASSERT_EQ(history.size(), 1u);
  EXPECT_NE(history[0].detail().find("no such stripe"), std::string::npos);
  EXPECT_EQ(cluster.manager.status().queued() + cluster.manager.status().delayed(), 0u);
}

TEST(RepairWork, NobodyIsToBlameForARepairWhoseStripeWasDeletedMeanwhile) {
  FakeCluster cluster(any_seed(), 12, {});
  const StripeId deleted = cluster.add_stripe(0), other = cluster.add_stripe(0);
  for (auto& [id, server] : cluster.servers)
    server->verdict = [&, deleted](const proto::RepairChunkRequest& request) {
      if (StripeId{request.stripe_id()} != deleted) return Status{};
      cluster.view.stripes.erase(deleted);
      return Status{Code::kNotFound, "partial sum: server 5: no such chunk"}.blame(ServerId{5});
    };
  cluster.lose({deleted, 0});
  cluster.simulation.run_for(3s);
  ASSERT_FALSE(cluster.view.stripes.contains(deleted));
  // One of seven is left out, which would be a suspect one.
  cluster.lose({other, 0});
  cluster.lose({other, 1});
  ASSERT_TRUE(cluster.wait_until_healthy(4s));
  EXPECT_TRUE(servers_of(cluster.calls.back().second.children()).contains(5));
}

TEST(RepairWork, AttemptsInARowAreBoundedThenTheChunkWaitsAtTheTail) {
  FakeCluster cluster(any_seed(), 20, {});
  cluster.add_stripe(0);
  for (auto& [id, server] : cluster.servers)
    server->verdict = [](const auto&) { return Status{Code::kIoError, "disk"}; };
  cluster.lose({StripeId{1}, 0});
  cluster.simulation.run_for(25s);
  EXPECT_EQ(cluster.calls.size(), Options{}.attempts_in_a_row);
  EXPECT_EQ(cluster.manager.history(1)[0].attempt(), Options{}.attempts_in_a_row);
  cluster.simulation.run_for(35s);
  EXPECT_GT(cluster.calls.size(), Options{}.attempts_in_a_row) << "it is not forgotten";
}

TEST(RepairWork, AHotChunkIsRepairedBeforeAnOlderColdOne) {
  FakeCluster cluster(any_seed(), 12, {.max_running = 1});
  const StripeId first = cluster.add_stripe(0), cold = cluster.add_stripe(0), hot = cluster.add_stripe(0);
  cluster.view.stripes.at(hot).chunks[0].heat = 20;
  cluster.lose({first, 0});
  cluster.simulation.run_for(100ms);
  cluster.lose({cold, 0});
  cluster.simulation.run_for(100ms);
  cluster.lose({hot, 0});
  ASSERT_TRUE(cluster.wait_until_healthy());
  EXPECT_EQ(order(cluster), (std::vector<ChunkId>{{first, 0}, {hot, 0}, {cold, 0}}));
}

TEST(RepairWork, ADegradedReadMakesTheChunksRepairMoreUrgent) {
  FakeCluster cluster(any_seed(), 12, {.max_running = 1});
  const StripeId first = cluster.add_stripe(0), older = cluster.add_stripe(0), read = cluster.add_stripe(0);
  cluster.lose({first, 0});
  cluster.simulation.run_for(100ms);
  cluster.lose({older, 0});
  cluster.simulation.run_for(100ms);
  cluster.lose({read, 0});
  cluster.simulation.run_for(100ms);
  ASSERT_TRUE(cluster.manager.plan_read(read_of({read, 0})));
  ASSERT_TRUE(cluster.wait_until_healthy());
  EXPECT_EQ(order(cluster), (std::vector<ChunkId>{{first, 0}, {read, 0}, {older, 0}}));
}

TEST(RepairWork, MovesWaitForRepairsAndCopyFromTheServer) {
  FakeCluster cluster(any_seed(), 12, {.max_running = 1});
  const StripeId moved = cluster.add_stripe(0), bad = cluster.add_stripe(0);
  cluster.manager.move_wanted({moved, 2}, ServerId{3}, "server 3 drains");
  cluster.lose({bad, 0});
  cluster.simulation.run_for(10s);
  EXPECT_EQ(order(cluster), (std::vector<ChunkId>{{bad, 0}, {moved, 2}}));
  const proto::RepairRecord record = cluster.manager.history(1)[0];
  EXPECT_EQ(record.kind(), proto::RepairRecord::MOVE);
  EXPECT_EQ(record.reason(), "server 3 drains");
  ASSERT_EQ(record.helpers_size(), 1);
  EXPECT_EQ(record.helpers(0), 3u);
  EXPECT_EQ(cluster.view.stripes.at(moved).chunks[2].server, ServerId{record.destination()});
  EXPECT_GT(record.destination(), 9u) << "a server without a chunk of the stripe";
  EXPECT_EQ(cluster.manager.moves(), 0u);
}

TEST(RepairWork, AMoveGoesWhereItIsWantedIfThatCanBe) {
  FakeCluster cluster(any_seed(), 14, {});
  const StripeId stripe = cluster.add_stripe(0);
  cluster.manager.move_wanted({stripe, 0}, ServerId{1}, "balance", ServerId{13});
  cluster.manager.move_wanted({stripe, 1}, ServerId{2}, "balance", ServerId{5});  // has a chunk of it
  cluster.simulation.run_for(10s);
  EXPECT_EQ(cluster.view.stripes.at(stripe).chunks[0].server, ServerId{13});
  EXPECT_GT(cluster.view.stripes.at(stripe).chunks[1].server.value, 9u);
}

TEST(RepairWork, AMoveOfAChunkThatGetsLostBecomesARepair) {
  FakeCluster cluster(any_seed(), 12, {});
  const StripeId stripe = cluster.add_stripe(0);
  cluster.manager.move_wanted({stripe, 0}, ServerId{1}, "server 1 drains");
  cluster.simulation.run_for(500ms);
  cluster.kill(ServerId{1});  // in the middle of the copy
  ASSERT_TRUE(cluster.wait_until_healthy());
  const auto history = cluster.manager.history(10);
  ASSERT_GE(history.size(), 2u);
  EXPECT_EQ(history.back().kind(), proto::RepairRecord::MOVE);
  EXPECT_EQ(history.back().outcome(), proto::RepairRecord::FAILED);
  EXPECT_EQ(history.front().kind(), proto::RepairRecord::REPAIR);
  EXPECT_EQ(history.front().helpers_size(), 6);
}

TEST(RepairWork, CancelledAndOutdatedMovesDoNotHappen) {
  FakeCluster cluster(any_seed(), 12, {.max_running = 1});
  const StripeId busy = cluster.add_stripe(0), stripe = cluster.add_stripe(0);
  cluster.lose({busy, 0});
  cluster.manager.move_wanted({stripe, 0}, ServerId{1}, "drain");
  cluster.manager.move_wanted({stripe, 1}, ServerId{7}, "it is not there");
  cluster.manager.move_wanted({stripe, 2}, ServerId{3}, "drain");
  cluster.simulation.run_for(500ms);
  cluster.manager.moves_cancelled(ServerId{1});
  EXPECT_EQ(cluster.manager.moves(), 1u);
  cluster.simulation.run_for(1min);
  EXPECT_EQ(order(cluster), (std::vector<ChunkId>{{busy, 0}, {stripe, 2}}));
}

TEST(RepairWork, AServerIsTheSourceOfFewMovesAtOnce) {
  FakeCluster cluster(any_seed(), 30, {.max_per_server = 4});
  for (size_t i = 0; i < 30; ++i) {
    const StripeId stripe = cluster.add_stripe(0);
    cluster.manager.move_wanted({stripe, 0}, ServerId{1}, "drain");
  }
  cluster.simulation.run_for(1min);
  EXPECT_EQ(cluster.view.commits.size(), 30u);
  EXPECT_EQ(cluster.most_helping, 2) << "half of the slots are left to repairs";
}

TEST(RepairWork, ADegradedReadGetsATreeAndGoesIntoTheHistory) {
  FakeCluster cluster(any_seed(), 12, {});
  const StripeId stripe = cluster.add_stripe(0);
  auto request = read_of({stripe, 0});
  request.add_exclude(3);
  request.add_exclude(4);
  const auto planned = cluster.manager.plan_read(request);
  ASSERT_TRUE(planned) << planned.error();
  const std::set<uint64_t> helpers = servers_of(planned->plan().children());
  EXPECT_EQ(helpers.size(), 6u);
  EXPECT_FALSE(helpers.contains(3) || helpers.contains(4));
  ASSERT_EQ(cluster.manager.status().running_size(), 1);
  EXPECT_EQ(cluster.manager.status().running(0).kind(), proto::RepairRecord::READ);

  cluster.simulation.run_for(2s);
  proto::FinishReadRequest finish;
  finish.set_repair_id(cluster.manager.status().running(0).repair_id());
  finish.set_ok(true);
  EXPECT_EQ(cluster.manager.finish_read(finish).code(), Code::kNotFound) << "everybody sees that id";
  EXPECT_EQ(cluster.manager.status().running_size(), 1);
  finish.set_repair_id(planned->plan().repair_id());
  finish.add_servers()->set_server_id(5);
  KINTSUGI_ASSERT_OK(cluster.manager.finish_read(finish));
  const proto::RepairRecord record = cluster.manager.history(1).at(0);
  EXPECT_EQ(record.kind(), proto::RepairRecord::READ);
  EXPECT_EQ(record.outcome(), proto::RepairRecord::DONE);
  EXPECT_EQ(record.chunk_bytes(), 1u << 20);
  EXPECT_GE(record.timing().seconds(), 2.0);
  EXPECT_EQ(record.servers_size(), 1);
  EXPECT_EQ(cluster.manager.finish_read(finish).code(), Code::kNotFound) << "it is finished already";
}

TEST(RepairWork, ADegradedReadWaitsForNobodyAndRepairsKeepAwayFromIt) {
  FakeCluster cluster(any_seed(), 12, {.max_per_server = 1});
  const StripeId first = cluster.add_stripe(0), second = cluster.add_stripe(0);
  cluster.lose({first, 0});
  cluster.simulation.run_for(500ms);
  EXPECT_EQ(cluster.calls.size(), 1u);
  const auto planned = cluster.manager.plan_read(read_of({first, 0}));
  ASSERT_TRUE(planned) << "though six of the eight helpers have no slot left";
  cluster.lose({second, 0});
  cluster.simulation.run_for(5s);
  EXPECT_EQ(cluster.calls.size(), 1u) << "the read is still under way on too many of them";
  proto::FinishReadRequest finish;
  finish.set_repair_id(planned->plan().repair_id());
  finish.set_detail("server 3: too slow");
  KINTSUGI_ASSERT_OK(cluster.manager.finish_read(finish));
  cluster.simulation.run_for(500ms);
  EXPECT_EQ(cluster.calls.size(), 2u);
}

TEST(RepairWork, AReadThatIsNeverFinishedIsForgotten) {
  FakeCluster cluster(any_seed(), 12, {.max_per_server = 1});
  const StripeId stripe = cluster.add_stripe(0);
  const auto planned = cluster.manager.plan_read(read_of({stripe, 0}));
  ASSERT_TRUE(planned);
  cluster.simulation.run_for(ReadPlans::kMinLease + 10s);
  EXPECT_EQ(cluster.manager.status().running_size(), 0);
  const auto history = cluster.manager.history(10);
  ASSERT_EQ(history.size(), 1u);
  EXPECT_EQ(history[0].outcome(), proto::RepairRecord::FAILED);
  EXPECT_EQ(history[0].detail(), "the reader never said how it ended");
  cluster.lose({stripe, 0});
  EXPECT_TRUE(cluster.wait_until_healthy(10s)) << "its slots are free again";
}

TEST(RepairWork, AReadWhoseEstimateIsBeyondAllMeasureIsForgottenToo) {
  FakeCluster cluster(any_seed(), 12, {.link = {.bytes_per_second = 1e-9}});
  const StripeId stripe = cluster.add_stripe(0);
  ASSERT_TRUE(cluster.manager.plan_read(read_of({stripe, 0})));
  cluster.simulation.run_for(ReadPlans::kMinLease + 10s);
  EXPECT_EQ(cluster.manager.status().running_size(), 1);
  cluster.simulation.run_for(ReadPlans::kMaxLease);
  EXPECT_EQ(cluster.manager.status().running_size(), 0);
}

TEST(RepairWork, ReadsThatCannotBeAreRefused) {
  FakeCluster cluster(any_seed(), 12, {});
  const StripeId stripe = cluster.add_stripe(0);
  const auto code = [&](const proto::PlanReadRequest& request) {
    return cluster.manager.plan_read(request).error().code();
  };
  auto request = read_of({stripe, 0});
  request.set_offset(8 << 20);
  EXPECT_EQ(code(request), Code::kInvalidArgument);
  request = read_of({stripe, 0});
  request.set_shape(static_cast<proto::RepairShape>(99));
  EXPECT_EQ(code(request), Code::kInvalidArgument);
  request = read_of({stripe, 0});
  for (size_t i = 0; i <= proto::kMaxExcludedFromPlan; ++i)
    request.add_exclude(100);
  EXPECT_EQ(code(request), Code::kInvalidArgument);
  EXPECT_EQ(code(read_of({StripeId{99}, 0})), Code::kNotFound);
  EXPECT_EQ(code(read_of({stripe, 9})), Code::kNotFound);
  for (uint64_t id : {2, 3, 4, 5})
    cluster.view.all_servers.at(ServerId{id}).alive = false;
  EXPECT_EQ(code(read_of({stripe, 0})), Code::kUnavailable);
  EXPECT_EQ(cluster.manager.status().running_size(), 0);
}

TEST(RepairWork, ManyRepairsScheduledTogetherLoadAllServersAlike) {
  const auto run = [](Schedule schedule) {
    FakeCluster cluster(any_seed(), 20, {.schedule = schedule});
    auto& random = cluster.simulation.random();
    for (size_t i = 0; i < 60; ++i) {
      std::vector<ChunkView>& chunks = cluster.view.stripes.at(cluster.add_stripe(0)).chunks;
      for (size_t at = 0; at < chunks.size();) {  // on random servers
        chunks[at].server = ServerId{random.below(20) + 1};
        const auto same = [&](const ChunkView& chunk) { return chunk.server == chunks[at].server; };
        if (std::none_of(chunks.begin(), chunks.begin() + static_cast<std::ptrdiff_t>(at), same)) ++at;
      }
    }
    const size_t lost = cluster.view.chunks_of(ServerId{1}).size();
    cluster.kill(ServerId{1});
    EXPECT_TRUE(cluster.wait_until_healthy());
    EXPECT_EQ(cluster.view.commits.size(), lost);
    EXPECT_EQ(cluster.manager.status().failed(), 0u);
    return std::pair(cluster.most_helping, static_cast<double>(lost) * 6 / 19);
  };
  const auto [most, mean] = run(Schedule::kJoint);
  EXPECT_LE(most, std::ceil(mean) + 2) << "of so few servers, each is in the same number of repairs";
  run(Schedule::kGreedy);
}

}  // namespace
}  // namespace kintsugi::repair_manager
