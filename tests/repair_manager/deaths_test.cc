// A server is declared dead: what runs with it ends at once, says so, and is planned again without it.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/repair_manager/fake_cluster.h"

namespace kintsugi::repair_manager {
namespace {

std::string dead(ServerId server) {
  return fmt::format("server {} was declared dead", server);
}

bool names(const proto::RepairRecord& record, ServerId server) {
  return record.outcome() == proto::RepairRecord::FAILED &&
         record.detail().find(dead(server)) != std::string::npos;
}

bool uses(const proto::RepairRecord& record, ServerId server) {
  const auto is = [server](uint64_t id) { return id == server.value; };
  return std::ranges::any_of(record.helpers(), is) || std::ranges::any_of(record.destinations(), is);
}

/// Servers that take forever, until they are told otherwise.
class Deaths : public ::testing::Test {
 protected:
  void start(size_t servers, Options options) {
    cluster = std::make_unique<FakeCluster>(any_seed(), servers, options);
    set_repair_time(1h);
  }

  void set_repair_time(Duration time) {
    for (auto& [id, server] : cluster->servers)
      server->repair_time = time;
  }

  /// The first attempt that runs, once so many do.
  proto::RepairRecord wait_for_running(int count = 1) {
    const auto running = [&] { return cluster->manager.status().running_size() >= count; };
    EXPECT_TRUE(cluster->simulation.run_until(running, 10s));
    cluster->simulation.run_for(100ms);
    return cluster->manager.status().running(0);
  }

  /// Its process hangs, and the metaserver has noticed.
  void declare_dead(ServerId server) {
    set_repair_time(1s);
    cluster->set_alive(server, false);
  }

  std::unique_ptr<FakeCluster> cluster;
};

TEST_F(Deaths, ARepairWithADeadHelperIsPlannedAgainWithoutIt) {
  start(12, {});
  const StripeId stripe = cluster->add_stripe(0);
  cluster->lose({stripe, 0});
  const proto::RepairRecord record = wait_for_running();
  const ServerId helper{record.helpers(2)};
  declare_dead(helper);
  ASSERT_TRUE(cluster->wait_until_healthy(5s));
  const auto history = cluster->manager.history(10);
  ASSERT_TRUE(names(history.back(), helper)) << history.back().detail();
  EXPECT_LT(history.back().timing().seconds(), 1);
  const std::string root = cluster->servers.at(ServerId{record.destination()})->host;
  EXPECT_EQ(cluster->view.given_up,
            (std::vector<std::pair<std::string, uint64_t>>{{root, record.repair_id()}}))
      << "those who live are told";
  for (size_t i = 0; i + 1 < history.size(); ++i) {
    EXPECT_EQ(history[i].outcome(), proto::RepairRecord::DONE);
    EXPECT_FALSE(uses(history[i], helper));
  }
}

TEST_F(Deaths, ARepairOntoADeadServerGoesToAnother) {
  start(12, {});
  const StripeId stripe = cluster->add_stripe(0);
  cluster->lose({stripe, 0});
  const ServerId destination{wait_for_running().destination()};
  declare_dead(destination);
  ASSERT_TRUE(cluster->wait_until_healthy(5s));
  const auto history = cluster->manager.history(10);
  ASSERT_EQ(history.size(), 2u);
  EXPECT_TRUE(cluster->view.given_up.empty()) << "it is the dead one that would be told";
  EXPECT_TRUE(names(history[1], destination)) << history[1].detail();
  EXPECT_FALSE(uses(history[0], destination));
}

TEST_F(Deaths, ARepairOfSeveralChunksEndsWithAnyOfTheirDestinations) {
  start(14, {});
  const StripeId stripe = cluster->add_stripe(0);
  cluster->lose({stripe, 0});
  cluster->lose({stripe, 5});
  const proto::RepairRecord record = wait_for_running();
  ASSERT_EQ(record.destinations_size(), 2);
  const ServerId below_the_root{record.destinations(1)};
  declare_dead(below_the_root);
  ASSERT_TRUE(cluster->wait_until_healthy(5s));
  const auto history = cluster->manager.history(10);
  EXPECT_TRUE(names(history.back(), below_the_root)) << history.back().detail();
  EXPECT_FALSE(uses(history.front(), below_the_root));
}

TEST_F(Deaths, AllOfManyRepairsThatUseTheServerEndAndTheOthersRunOn) {
  for (const Schedule schedule : {Schedule::kJoint, Schedule::kGreedy}) {
    start(20, {.schedule = schedule});
    for (size_t i = 0; i < 20; ++i)
      cluster->add_stripe(i);
    cluster->kill(ServerId{1});
    wait_for_running(6);
    const ServerId second{2};
    size_t with = 0, without = 0;
    const proto::RepairStatusResponse status = cluster->manager.status();
    for (const proto::RepairRecord& record : status.running())
      ++(uses(record, second) ? with : without);
    ASSERT_GT(with, 0u);
    ASSERT_GT(without, 0u);
    declare_dead(second);
    cluster->simulation.run_for(100ms);
    const auto history = cluster->manager.history(100);
    EXPECT_EQ(history.size(), with);
    for (const proto::RepairRecord& record : history)
      EXPECT_TRUE(names(record, second)) << record.detail();
    EXPECT_GE(cluster->manager.status().running_size(), static_cast<int>(without));
    cluster->stop();
  }
}

TEST_F(Deaths, AMoveFromOrToADeadServerEnds) {
  for (const bool source : {true, false}) {
    start(12, {});
    const StripeId stripe = cluster->add_stripe(0);
    cluster->manager.move_wanted({stripe, 0}, ServerId{1}, "drained");
    const proto::RepairRecord record = wait_for_running();
    ASSERT_EQ(record.kind(), proto::RepairRecord::MOVE);
    const ServerId server{source ? record.helpers(0) : record.destination()};
    declare_dead(server);
    cluster->simulation.run_for(5s);
    const auto history = cluster->manager.history(10);
    ASSERT_FALSE(history.empty());
    EXPECT_TRUE(names(history.back(), server)) << history.back().detail();
    EXPECT_TRUE(cluster->healthy()) << "what was to be moved is repaired when its server died";
    cluster->stop();
  }
}

TEST_F(Deaths, ARequestedRepairIsPlannedAgainToo) {
  start(12, {});
  const StripeId stripe = cluster->add_stripe(0);
  ServerId helper;
  const auto die = [&] {
    helper = ServerId{cluster->manager.status().running(0).helpers(0)};
    declare_dead(helper);
  };
  cluster->server(1).repair_time = 1h;
  const TimePoint began = cluster->simulation.now();
  cluster->simulation.clock().call_at(began + 1s, die);
  const auto record = cluster->run({.stripe = stripe, .indexes = {3}});
  ASSERT_TRUE(record) << record.error();
  EXPECT_LT(cluster->simulation.now() - began, 5s);
  EXPECT_FALSE(uses(*record, helper));
  EXPECT_EQ(record->attempt(), 2u);
}

TEST_F(Deaths, ASpareServerInMaintenanceIsWaitedForUntilItsEnd) {
  start(12, {});
  set_repair_time(1s);
  const StripeId stripe = cluster->add_stripe(0);
  const ServerId away = cluster->view.stripes.at(stripe).chunks[4].server;
  cluster->view.all_servers.at(away).maintenance_left = 100s;
  cluster->kill(away);
  cluster->simulation.run_for(90s);
  EXPECT_EQ(cluster->manager.counts().delayed, 1u);
  EXPECT_TRUE(cluster->calls.empty()) << "there is no repair delay, but it is awaited";
  cluster->view.all_servers.at(away).maintenance_left = {};
  ASSERT_TRUE(cluster->wait_until_healthy(30s)) << "its time is over";
}

TEST_F(Deaths, AMaintenanceThatBeginsOrEndsLateCountsForWhatWaits) {
  start(12, {.delay = 50s});
  set_repair_time(1s);
  const StripeId stripe = cluster->add_stripe(0);
  const ServerId away = cluster->view.stripes.at(stripe).chunks[4].server;
  cluster->kill(away);
  cluster->simulation.run_for(10s);
  // The host tells of the server anew each time.
  const auto set_maintenance = [&](Duration left, Duration dead_for) {
    cluster->view.all_servers.at(away).maintenance_left = left;
    cluster->manager.maintenance_changed(away);
    cluster->manager.server_dead(away, cluster->view.chunks_of(away), dead_for);
  };
  set_maintenance(1000s, 10s);
  cluster->simulation.run_for(100s);
  EXPECT_TRUE(cluster->calls.empty());
  EXPECT_EQ(cluster->manager.counts().delayed, 1u);
  set_maintenance(0s, 110s);
  EXPECT_TRUE(cluster->wait_until_healthy(10s)) << "the repair delay was over long ago";
}

TEST_F(Deaths, AServerThatReallyDiesWhileAnotherIsInMaintenanceHasBothRepaired) {
  start(12, {.delay = 1h});
  set_repair_time(1s);
  const StripeId stripe = cluster->add_stripe(0);
  const auto& chunks = cluster->view.stripes.at(stripe).chunks;
  const ServerId away = chunks[4].server, dead = chunks[7].server;
  cluster->view.all_servers.at(away).maintenance_left = 10h;
  cluster->kill(away);
  cluster->simulation.run_for(10s);
  EXPECT_TRUE(cluster->calls.empty());
  cluster->kill(dead);
  EXPECT_TRUE(cluster->wait_until_healthy(30s)) << "one spare chunk is too few after a real loss";
}

TEST_F(Deaths, AStripeWithOneSpareChunkWaitsNoLongerThanTheMaintenance) {
  start(12, {.delay = 1h});
  set_repair_time(1s);
  const StripeId stripe = cluster->add_stripe(0);
  const auto& chunks = cluster->view.stripes.at(stripe).chunks;
  const ServerId away[] = {chunks[4].server, chunks[7].server};
  for (const ServerId server : away)
    cluster->view.all_servers.at(server).maintenance_left = 100s;
  for (const ServerId server : away)
    cluster->kill(server);
  cluster->simulation.run_for(90s);
  EXPECT_TRUE(cluster->calls.empty());
  for (const ServerId server : away)
    cluster->view.all_servers.at(server).maintenance_left = {};
  EXPECT_TRUE(cluster->wait_until_healthy(30s)) << "the repair delay is for stripes with more spare chunks";
}

TEST_F(Deaths, ARepairThatFailsDoesNotHideWhatItsStripeLostMeanwhile) {
  start(12, {.max_running = 1});
  set_repair_time(5s);
  int ended = 0;
  for (auto& [id, server] : cluster->servers)
    server->verdict = [&ended](const proto::RepairChunkRequest&) {
      return ended++ == 0 ? Status{Code::kIoError, "the first one fails"} : Status{};
    };
  const StripeId stripe = cluster->add_stripe(0), other = cluster->add_stripe(0);
  cluster->lose({stripe, 0});
  cluster->lose({stripe, 1});
  ASSERT_TRUE(cluster->simulation.run_until([&] { return cluster->calls.size() == 1; }, 10s));
  cluster->lose({other, 0});
  cluster->lose({other, 1});
  cluster->simulation.run_for(1s);
  cluster->lose({stripe, 2});
  ASSERT_TRUE(cluster->simulation.run_until([&] { return cluster->calls.size() == 2; }, 30s));
  EXPECT_EQ(cluster->calls[1].second.stripe_id(), stripe.value) << "it has no spare chunk left";
  EXPECT_TRUE(cluster->calls[1].second.urgent());
  EXPECT_TRUE(cluster->wait_until_healthy(60s));
}

TEST_F(Deaths, AStripeWithoutASpareChunkWaitsForNoSlotsOfRepairsThatAreSlowed) {
  for (const Schedule schedule : {Schedule::kGreedy, Schedule::kJoint}) {
    start(12, {.max_per_server = 2, .min_deadline = 10h, .schedule = schedule});
    set_repair_time(1h);
    for (size_t first = 0; first < 60; ++first)
      cluster->lose({cluster->add_stripe(first), 0});
    cluster->simulation.run_for(10s);
    EXPECT_LT(cluster->calls.size(), 60u) << "the others find no slots";
    set_repair_time(1s);
    std::vector<StripeId> urgent;
    for (size_t first = 0; first < 12; ++first) {
      urgent.push_back(cluster->add_stripe(first));
      for (uint32_t index = 0; index < 3; ++index)
        cluster->lose({urgent.back(), index});
    }
    const auto whole = [&] {
      return std::ranges::all_of(urgent,
                                 [&](StripeId id) { return cluster->view.available_chunks(id) == 9; });
    };
    EXPECT_TRUE(cluster->simulation.run_until(whole, 5min));
    EXPECT_LE(cluster->most_helping, 4) << "as many again at most";
  }
}

TEST_F(Deaths, OnlyRepairsOfStripesWithoutASpareChunkAreUrgent) {
  start(14, {});
  set_repair_time(1s);
  const StripeId stripe = cluster->add_stripe(0), other = cluster->add_stripe(0);
  for (uint32_t index = 0; index < 3; ++index)
    cluster->lose({stripe, index});
  cluster->lose({other, 0});
  ASSERT_TRUE(cluster->wait_until_healthy(60s));
  bool was_urgent = false;
  for (const auto& [at, request] : cluster->calls) {
    if (request.stripe_id() == other.value) EXPECT_FALSE(request.urgent());
    was_urgent |= request.stripe_id() == stripe.value && request.urgent();
  }
  EXPECT_TRUE(was_urgent);
}

}  // namespace
}  // namespace kintsugi::repair_manager
