#include "repair_manager/manager/repair_manager.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "monitoring/sight/module.h"
#include "monitoring/sight/open_tasks.h"
#include "monitoring/sight/recorder.h"
#include "tests/repair_manager/fake_cluster.h"

namespace kintsugi::repair_manager {
namespace {

using google::protobuf::RepeatedPtrField;

constexpr sight::Site kRequested{"test.requested"};

std::set<uint64_t> helpers_of(const proto::RepairRecord& record) {
  return {record.helpers().begin(), record.helpers().end()};
}

TEST(RepairManager, ADeadServersChunksAreRebuiltElsewhereAndTheFirstRepairBeginsWithinASecond) {
  FakeCluster cluster(any_seed(), 12, {});
  for (size_t i = 0; i < 12; ++i)
    cluster.add_stripe(i);
  const TimePoint died = cluster.simulation.now();
  cluster.kill(ServerId{3});
  ASSERT_TRUE(cluster.wait_until_healthy());
  EXPECT_LT(cluster.calls.front().first - died, 1s);
  EXPECT_EQ(cluster.view.commits.size(), 9u);
  const proto::RepairRecord record = cluster.manager.history(1).at(0);
  EXPECT_EQ(record.outcome(), proto::RepairRecord::DONE);
  EXPECT_EQ(record.reason(), "server 3 dead");
  EXPECT_EQ(record.helpers_size(), 6);
  EXPECT_GE(record.timing().seconds(), 1.0);
  EXPECT_EQ(record.servers_size(), 1);
  EXPECT_EQ(cluster.manager.status().done(), 9u);
  EXPECT_EQ(cluster.manager.status().running_size(), 0);
  EXPECT_EQ(cluster.manager.status().bytes_repaired(), 9u * (8 << 20));
}

TEST(RepairManager, AHelperThatFailsIsLeftOutOfTheNextPlan) {
  FakeCluster cluster(any_seed(), 12, {});
  const StripeId stripe = cluster.add_stripe(0);
  cluster.broken_helpers = {ServerId{2}, ServerId{3}};
  cluster.lose({stripe, 0});
  ASSERT_TRUE(cluster.wait_until_healthy());
  const auto history = cluster.manager.history(10);
  ASSERT_EQ(history.size(), 3u) << "each failure names one of the two";
  for (uint64_t broken : {2u, 3u}) {
    EXPECT_FALSE(helpers_of(history[0]).contains(broken));
    EXPECT_TRUE(helpers_of(history[2]).contains(broken));
  }
  EXPECT_EQ(history[2].outcome(), proto::RepairRecord::FAILED);
  EXPECT_NE(history[2].detail().find("connection refused"), std::string::npos);
  EXPECT_EQ(history[0].attempt(), 3u);
}

TEST(RepairManager, ADestinationThatDiesIsReplaced) {
  FakeCluster cluster(any_seed(), 12, {});
  const StripeId stripe = cluster.add_stripe(0);
  cluster.lose({stripe, 0});
  ASSERT_TRUE(cluster.simulation.run_until([&] { return cluster.manager.status().running_size() == 1; }, 1s));
  const ServerId destination{cluster.manager.status().running(0).destination()};
  cluster.simulation.run_for(100ms);
  cluster.kill(destination);
  ASSERT_TRUE(cluster.wait_until_healthy());
  EXPECT_NE(cluster.view.commits.at(0).second, destination);
}

TEST(RepairManager, ADestinationThatHadNoRoomIsLeftOutUntilItReportsMore) {
  FakeCluster cluster(any_seed(), 12, {});
  std::set<uint64_t> refusing{10, 11};
  for (const uint64_t full : refusing)
    cluster.server(full).verdict = [](const proto::RepairChunkRequest&) {
      return Status{Code::kNoSpace, "disk /d0 is full"};
    };
  const auto lose_one_after_another = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) {
      cluster.lose({cluster.add_stripe(0), static_cast<uint32_t>(i % 9)});
      ASSERT_TRUE(cluster.wait_until_healthy(5min));
      cluster.simulation.run_for(40s);  // longer than a failure is held against a server
    }
  };
  const auto asked = [&] {
    return std::ranges::count_if(cluster.manager.history(1000), [&](const proto::RepairRecord& record) {
      return refusing.contains(record.destination()) && record.outcome() == proto::RepairRecord::FAILED;
    });
  };
  lose_one_after_another(12);
  EXPECT_LE(asked(), 2) << "each is asked once";
  for (const uint64_t full : refusing) {
    cluster.server(full).verdict = {};
    cluster.view.all_servers.at(ServerId{full}).free_bytes += 1 << 30;
  }
  cluster.view.commits.clear();
  lose_one_after_another(12);
  EXPECT_TRUE(std::ranges::any_of(cluster.view.commits, [&](const auto& commit) {
    return refusing.contains(commit.second.value);
  })) << "they have room again";
}

TEST(RepairManager, ADestinationThatHangsIsGivenUpAtTheDeadline) {
  FakeCluster cluster(any_seed(), 11, {});
  const StripeId stripe = cluster.add_stripe(0);
  cluster.server(10).repair_time = cluster.server(11).repair_time = 1h;
  cluster.lose({stripe, 0});
  ASSERT_TRUE(cluster.simulation.run_until([&] { return cluster.calls.size() == 1; }, 1s));
  ServerId hanging{cluster.manager.status().running(0).destination()};
  cluster.server(21 - hanging.value).repair_time = 1s;
  ASSERT_TRUE(cluster.wait_until_healthy(40s));
  EXPECT_NE(cluster.view.commits.at(0).second, hanging);
}

TEST(RepairManager, AServersReturnCancelsItsRepairs) {
  FakeCluster cluster(any_seed(), 12, {.delay = 15min});
  for (size_t i = 0; i < 5; ++i)
    cluster.add_stripe(i);
  cluster.set_alive(ServerId{6}, false);
  cluster.simulation.run_for(10min);
  EXPECT_EQ(cluster.manager.status().delayed(), 5u);
  cluster.set_alive(ServerId{6}, true);
  cluster.simulation.run_for(20min);
  EXPECT_EQ(cluster.manager.status().delayed(), 0u);
  EXPECT_TRUE(cluster.calls.empty());
}

TEST(RepairManager, TheDelayEndsForAStripeWithOneSpareLeft) {
  FakeCluster cluster(any_seed(), 12, {.delay = 15min});
  const StripeId both = cluster.add_stripe(0), one = cluster.add_stripe(3);
  cluster.set_alive(ServerId{1}, false);  // not of stripe `one`
  cluster.set_alive(ServerId{5}, false);
  cluster.simulation.run_for(10s);
  EXPECT_EQ(cluster.view.available_chunks(both), 9u);
  EXPECT_EQ(cluster.view.available_chunks(one), 8u);
  cluster.simulation.run_for(15min);
  EXPECT_TRUE(cluster.healthy());
}

TEST(RepairManager, TheMostEndangeredStripeGoesFirst) {
  FakeCluster cluster(any_seed(), 12, {.max_running = 1});
  const StripeId safe = cluster.add_stripe(0), endangered = cluster.add_stripe(0);
  cluster.lose({safe, 0});
  for (uint32_t index : {0u, 1u, 2u})
    cluster.lose({endangered, index});
  ASSERT_TRUE(cluster.wait_until_healthy());
  ASSERT_EQ(cluster.calls.size(), 2u) << "the three chunks of one stripe are rebuilt in one pass";
  EXPECT_EQ(cluster.calls[0].second.stripe_id(), endangered.value);
}

TEST(RepairManager, NoServerTakesPartInMoreRepairsThanItHasSlots) {
  FakeCluster cluster(any_seed(), 14, {.max_per_server = 2});
  for (size_t i = 0; i < 70; ++i)
    cluster.add_stripe(i);
  cluster.kill(ServerId{1});
  cluster.kill(ServerId{2});
  ASSERT_TRUE(cluster.wait_until_healthy());
  EXPECT_EQ(cluster.most_helping, 2) << "all slots are used, and no more";
  EXPECT_LE(cluster.most_receiving, 2);
  EXPECT_EQ(cluster.manager.status().failed(), 0u);
}

TEST(RepairManager, WhatCannotBeRepairedWaitsForAServersReturn) {
  FakeCluster cluster(any_seed(), 14, {});
  const StripeId stripe = cluster.add_stripe(0);
  for (uint64_t id : {1, 2, 3, 4})
    cluster.set_alive(ServerId{id}, false);
  cluster.simulation.run_for(5min);
  EXPECT_EQ(cluster.manager.status().unrepairable(), 4u);
  EXPECT_TRUE(cluster.calls.empty());
  cluster.set_alive(ServerId{3}, true);
  cluster.simulation.run_for(30s);
  EXPECT_EQ(cluster.view.available_chunks(stripe), 9u);
  EXPECT_EQ(cluster.manager.status().unrepairable(), 0u);
}

TEST(RepairManager, SuspectHelpersAreNotAskedButWaitedFor) {
  FakeCluster cluster(any_seed(), 14, {});
  const StripeId stripe = cluster.add_stripe(0);
  cluster.view.suspect = {ServerId{2}, ServerId{3}, ServerId{4}};
  cluster.lose({stripe, 0});
  cluster.simulation.run_for(8s);
  EXPECT_TRUE(cluster.calls.empty());
  EXPECT_EQ(cluster.manager.status().unrepairable(), 0u);
  cluster.view.suspect.erase(ServerId{3});
  EXPECT_TRUE(cluster.wait_until_healthy(4s));
}

TEST(RepairManager, AServerThatIsToDeleteAnOlderCopyIsNoDestinationUntilItDid) {
  FakeCluster cluster(any_seed(), 10, {});
  const ChunkId chunk{cluster.add_stripe(0), 0};
  cluster.view.deleting = {{chunk, ServerId{10}}};
  cluster.view.all_servers.at(ServerId{1}).alive = false;
  cluster.lose(chunk);
  cluster.simulation.run_for(5s);
  EXPECT_TRUE(cluster.calls.empty());
  cluster.view.deleting.clear();
  cluster.simulation.run_for(3s);
  EXPECT_EQ(cluster.view.stripes.at(chunk.stripe).chunks[0].server, ServerId{10});
}

TEST(RepairManager, WithoutADestinationItWaitsForANewServer) {
  FakeCluster cluster(any_seed(), 10, {});
  cluster.add_stripe(0);
  cluster.view.all_servers.at(ServerId{10}).alive = false;
  cluster.kill(ServerId{1});
  cluster.simulation.run_for(5min);
  EXPECT_EQ(cluster.manager.status().queued(), 1u);
  EXPECT_EQ(cluster.manager.status().unrepairable(), 0u);
  cluster.set_alive(ServerId{10}, true);
  EXPECT_TRUE(cluster.wait_until_healthy(10s));
}

TEST(RepairManager, ABadHelperThatNobodyNamesIsFoundByLeavingOthersOut) {
  FakeCluster cluster(any_seed(), 12, {});
  const StripeId stripe = cluster.add_stripe(0);
  constexpr uint64_t kBad = 4;
  for (auto& [id, server] : cluster.servers)
    server->verdict = [](const proto::RepairChunkRequest& request) {
      std::function<bool(const RepeatedPtrField<proto::RepairNode>&)> has_bad = [&](const auto& nodes) {
        return std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) {
          return node.server_id() == kBad || has_bad(node.children());
        });
      };
      return has_bad(request.children()) ? Status{Code::kCorrupt, "rebuilt chunk does not match its checksum"}
                                         : Status{};
    };
  cluster.lose({stripe, 0});
  EXPECT_TRUE(cluster.wait_until_healthy(10min));
  EXPECT_FALSE(helpers_of(cluster.manager.history(1).at(0)).contains(kBad));
}

TEST(RepairManager, AChunkThatAHelperNoLongerHasIsReportedLost) {
  FakeCluster cluster(any_seed(), 14, {});
  const StripeId stripe = cluster.add_stripe(0);
  bool first = true;
  for (auto& [id, server] : cluster.servers)
    server->verdict = [&](const proto::RepairChunkRequest&) {
      const Status gone = Status{Code::kNotFound, "partial sum: server 4: no such chunk"}.blame(ServerId{4});
      return std::exchange(first, false) ? gone : Status{};
    };
  cluster.lose({stripe, 0});
  cluster.simulation.run_for(10s);
  EXPECT_EQ(cluster.view.lost, std::set<ChunkId>{(ChunkId{stripe, 3})});
}

TEST(RepairManager, ADeletedStripeIsNotRepaired) {
  FakeCluster cluster(any_seed(), 12, {.delay = 1min});
  const StripeId stripe = cluster.add_stripe(0);
  cluster.set_alive(ServerId{1}, false);
  cluster.simulation.run_for(1s);
  cluster.view.stripes.erase(stripe);
  cluster.manager.stripe_deleted(stripe);
  cluster.simulation.run_for(2min);
  EXPECT_TRUE(cluster.calls.empty());
  EXPECT_EQ(cluster.manager.status().queued(), 0u);
}

TEST(RepairManager, RunMovesAHealthyChunkToTheServerThatWasAskedFor) {
  FakeCluster cluster(any_seed(), 12, {});
  const StripeId stripe = cluster.add_stripe(0);
  const auto result =
      cluster.run({stripe, {2}, {.shape = Shape::PPR, .slice_bytes = 1 << 20, .destination = ServerId{12}}});
  ASSERT_TRUE(result) << result.error();
  EXPECT_EQ(result->shape(), proto::RepairShape::PPR);
  EXPECT_EQ(result->slice_bytes(), 1u << 20);
  EXPECT_EQ(result->destination(), 12u);
  EXPECT_EQ(result->reason(), "requested");
  EXPECT_EQ(cluster.view.stripes.at(stripe).chunks[2].server, ServerId{12});
}

TEST(RepairManager, RunRefusesWhatCannotBe) {
  FakeCluster cluster(any_seed(), 12, {});
  const StripeId stripe = cluster.add_stripe(0);
  const auto code = [&](ChunkId chunk, uint64_t destination) {
    return cluster.run({chunk.stripe, {chunk.index}, {.destination = ServerId{destination}}}).error().code();
  };
  EXPECT_EQ(code({StripeId{99}, 0}, 0), Code::kNotFound);
  EXPECT_EQ(code({stripe, 9}, 0), Code::kNotFound);
  EXPECT_EQ(code({stripe, 0}, 2), Code::kInvalidArgument);
  EXPECT_EQ(code({stripe, 0}, 1), Code::kInvalidArgument);
  EXPECT_EQ(code({stripe, 0}, 77), Code::kInvalidArgument);
}

asio::awaitable<void> run_into(FakeCluster& cluster, ChunkId chunk, std::vector<uint64_t>& repair_ids) {
  WantedRepair wanted{.stripe = chunk.stripe, .indexes = {chunk.index}};
  const auto result = co_await cluster.manager.run({}, std::move(wanted));
  if (!result) co_return;
  EXPECT_EQ(result->outcome(), proto::RepairRecord::DONE);
  repair_ids.push_back(result->repair_id());
}

TEST(RepairManager, TwoRequestsForOneChunkAreOneRepair) {
  FakeCluster cluster(any_seed(), 12, {});
  const StripeId stripe = cluster.add_stripe(0);
  runtime::TaskGroup tasks(cluster.simulation.executor(), cluster.simulation.clock());
  std::vector<uint64_t> repair_ids;
  cluster.lose({stripe, 0});
  for (int i = 0; i < 3; ++i)
    tasks.spawn(run_into(cluster, {stripe, 0}, repair_ids));
  cluster.simulation.run(tasks.join());
  ASSERT_EQ(repair_ids.size(), 3u);
  EXPECT_EQ(std::set<uint64_t>(repair_ids.begin(), repair_ids.end()).size(), 1u);
  cluster.simulation.run_for(1min);
  EXPECT_EQ(cluster.calls.size(), 1u);
}

TEST(RepairManager, AChunkLostWhileARequestedMoveOfItRanIsRepairedAfterTheMoveFailed) {
  FakeCluster cluster(any_seed(), 12, {.attempts_in_a_row = 1});
  const StripeId stripe = cluster.add_stripe(0);
  for (uint64_t id = 10; id <= 12; ++id)
    cluster.server(id).verdict = [](const auto&) { return Status{Code::kIoError, "disk"}; };
  runtime::TaskGroup tasks(cluster.simulation.executor(), cluster.simulation.clock());
  std::vector<uint64_t> repair_ids;
  tasks.spawn(run_into(cluster, {stripe, 0}, repair_ids));
  cluster.simulation.run_for(500ms);
  cluster.kill(ServerId{1});
  cluster.simulation.run(tasks.join());
  EXPECT_TRUE(repair_ids.empty());
  for (uint64_t id = 10; id <= 12; ++id)
    cluster.server(id).verdict = nullptr;
  EXPECT_TRUE(cluster.wait_until_healthy());
}

TEST(RepairManager, WhoWaitsForSlotsSaysWhichRepairHasHadThemForLongest) {
  FakeCluster cluster(any_seed(), 12, {.max_per_server = 1});
  sight::Recorder recorder(cluster.simulation.clock(), 1);
  runtime::TaskGroup tasks(cluster.simulation.executor(), cluster.simulation.clock());
  const auto request = [&](StripeId stripe) -> asio::awaitable<void> {
    const sight::Task task(recorder.root_context(), kRequested);
    const Context context = task.context();
    const auto result = co_await cluster.manager.run(context, {.stripe = stripe, .indexes = {0}});
    EXPECT_TRUE(result) << result.error();
  };
  std::vector<StripeId> stripes;
  for (int i = 0; i < 2; ++i)
    stripes.push_back(cluster.add_stripe(0));
  for (const StripeId stripe : stripes)
    tasks.spawn(request(stripe));
  cluster.simulation.run_for(500ms);
  uint64_t repair = 0, awaited = 0;
  for (const sight::OpenTask& task : sight::open_tasks(recorder.live()))
    for (const sight::LiveRecord& record : task.records) {
      if (record.site != nullptr && record.site->name == "repair_manager.repair") repair = record.span_id;
      if (record.wait == runtime::WaitKind::kResource) awaited = record.target_span;
    }
  EXPECT_NE(awaited, 0u);
  EXPECT_EQ(awaited, repair);
  cluster.simulation.run(tasks.join());
  EXPECT_EQ(cluster.calls.size(), 2u);
}

TEST(RepairManager, StopEndsWhatRunsAndWhoWaits) {
  FakeCluster cluster(any_seed(), 12, {.max_per_server = 1});
  runtime::TaskGroup tasks(cluster.simulation.executor(), cluster.simulation.clock());
  std::vector<uint64_t> repair_ids;
  const StripeId first = cluster.add_stripe(0), second = cluster.add_stripe(0);
  tasks.spawn(run_into(cluster, {first, 0}, repair_ids));
  tasks.spawn(run_into(cluster, {second, 0}, repair_ids));
  cluster.simulation.run_for(500ms);
  EXPECT_EQ(cluster.calls.size(), 1u) << "the second waits for slots";
  cluster.stop();
  cluster.simulation.run(tasks.join());
  EXPECT_TRUE(repair_ids.empty());
}

TEST(RepairManager, HistoryIsBoundedAndNewestFirst) {
  FakeCluster cluster(any_seed(), 12, {.history = 5});
  for (size_t i = 0; i < 12; ++i)
    cluster.add_stripe(i);
  cluster.kill(ServerId{3});
  ASSERT_TRUE(cluster.wait_until_healthy());
  const auto history = cluster.manager.history(100);
  ASSERT_EQ(history.size(), 5u);
  for (size_t i = 1; i < history.size(); ++i)
    EXPECT_GE(history[i - 1].started_ns(), history[i].started_ns());
}

class RepairManagerSeeds : public testing::TestWithParam<uint64_t> {};

// Servers die, return, break and hang at random; losses are reported twice. When the trouble ends, everything
// is repaired, no slot is leaked and nothing was overbooked.
TEST_P(RepairManagerSeeds, EverythingIsRepairedInTheEnd) {
  FakeCluster cluster(GetParam(), 20, {.delay = 20s, .max_per_server = 2});
  SCOPED_TRACE(cluster.simulation.replay_hint());
  auto& random = cluster.simulation.random();
  for (size_t i = 0; i < 100; ++i)
    cluster.add_stripe(random.below(20), random.below(64 << 20));
  std::set<ServerId> down;
  for (int step = 0; step < 60; ++step) {
    const ServerId server{random.below(20) + 1};
    switch (random.below(6)) {
      case 0:
        if (down.size() < 3 && down.insert(server).second) cluster.set_alive(server, false);
        break;
      case 1:
        if (down.erase(server) > 0) cluster.set_alive(server, true);
        break;
      case 2: cluster.broken_helpers = {server}; break;
      case 3: cluster.server(server.value).repair_time = random.below(2) == 0 ? 1s : 45s; break;
      default: {
        const ChunkId chunk{StripeId{random.below(100) + 1}, static_cast<uint32_t>(random.below(9))};
        if (cluster.view.available_chunks(chunk.stripe) > 7) cluster.lose(chunk);
        cluster.manager.chunk_lost(chunk, "reported by a reader", true);
      }
    }
    cluster.simulation.run_for(std::chrono::milliseconds(random.below(5000)));
  }
  cluster.broken_helpers.clear();
  for (auto& [id, server] : cluster.servers)
    server->repair_time = 1s;
  for (ServerId server : down)
    cluster.set_alive(server, true);
  ASSERT_TRUE(cluster.wait_until_healthy(1h)) << cluster.manager.status().queued();
  cluster.simulation.run_for(2min);
  EXPECT_EQ(cluster.manager.status().running_size(), 0);
  EXPECT_EQ(cluster.manager.status().queued() + cluster.manager.status().delayed(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RepairManagerSeeds, testing::Range<uint64_t>(1, 41));

}  // namespace
}  // namespace kintsugi::repair_manager
