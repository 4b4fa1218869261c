// Who repairs what, when repair managers come and go.
#include "metaserver/repair/repair_shards.h"

#include <map>

#include <gtest/gtest.h>

#include "metaserver/repair/repair_log.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::metaserver {
namespace {

class Shards {
 public:
  Shards() { settle(); }

  void settle() { pass(RepairShards::kSettle); }
  /// Time passes; the managers in `alive` join every second.
  void pass(Duration time) {
    const TimePoint end = simulation.now() + time;
    while (simulation.now() < end) {
      simulation.run_for(250ms);
      ++quarters;
      for (const auto& [id, address] : alive) {
        if (quarters % 4 != 0) continue;
        EXPECT_EQ(shards.join(id, address, ""), Status{});
      }
      shards.expire();
    }
  }
  void come(uint64_t id) { alive[id] = "10.0.0." + std::to_string(id) + ":7002"; }
  void go(uint64_t id) { alive.erase(id); }
  size_t count(uint64_t id) const { return shards.shards_of(id).size(); }

  simulation::Simulation simulation{1};
  RepairShards shards{simulation.clock(), 1};
  std::map<uint64_t, std::string> alive;
  int quarters = 0;
};

TEST(RepairShards, ANewClusterGivesThemToTheFirstManagerAtOnce) {
  simulation::Simulation simulation{1};
  RepairShards shards{simulation.clock(), 1};
  shards.settle();
  const uint64_t before = shards.last_epoch();
  ASSERT_EQ(shards.join(7, "10.0.0.7:7002", ""), Status{});
  EXPECT_EQ(shards.shards_of(7).size(), kRepairShards);
  EXPECT_GT(shards.last_epoch(), before);
}

TEST(RepairShards, ATicketNamesItsShardWhateverElseIsInIt) {
  for (const uint64_t random : {uint64_t{0}, uint64_t{1}, uint64_t{0x123456789ABCDEF0}, ~uint64_t{0}})
    for (uint32_t shard = 0; shard < kRepairShards; ++shard) {
      EXPECT_EQ(shard_of_ticket(ticket_of_shard(shard, random)), shard);
      EXPECT_NE(ticket_of_shard(shard, random), 0u);
    }
}

TEST(RepairShards, AreNobodysWithoutManagers) {
  Shards s;
  EXPECT_EQ(s.count(0), kRepairShards);
}

TEST(RepairShards, EveryManagerGetsAPartAndOnlyThePartOfOneThatGoesChangesHands) {
  Shards s;
  for (uint64_t id : {1, 2, 3, 4})
    s.come(id);
  s.pass(5s);
  std::map<uint32_t, uint64_t> before;
  size_t all = 0;
  for (uint64_t id : {1, 2, 3, 4}) {
    EXPECT_GE(s.count(id), kRepairShards / 16) << id;
    all += s.count(id);
    for (uint32_t shard : s.shards.shards_of(id))
      before[shard] = id;
  }
  EXPECT_EQ(all, kRepairShards);
  s.go(2);
  s.pass(5s);
  EXPECT_EQ(s.count(2), 0u);
  for (uint64_t id : {1, 3, 4})
    for (uint32_t shard : s.shards.shards_of(id))
      EXPECT_TRUE(before[shard] == id || before[shard] == 2) << shard;
}

TEST(RepairShards, AManagerThatIsNotHeardOfKeepsItsShardsAsLongAsItMayActOnThem) {
  Shards s;
  s.come(1);
  s.come(2);
  s.pass(5s);
  const size_t had = s.count(1);
  s.go(1);
  s.pass(RepairShards::kLease - 500ms);
  EXPECT_EQ(s.count(1), had);
  s.pass(2s);
  EXPECT_EQ(s.count(1), 0u);
  EXPECT_EQ(s.count(2), kRepairShards);
}

TEST(RepairShards, AManagerThatComesGetsShardsOnlyOnceTheOthersWereToldAndAllLearnIt) {
  Shards s;
  s.come(1);
  s.pass(3s);
  const uint64_t epoch = s.shards.find(1)->epoch;
  EXPECT_EQ(s.shards.join(2, "b:1", ""), Status{});
  EXPECT_EQ(s.count(2), 0u);
  EXPECT_EQ(s.shards.find(1)->epoch, epoch);
  const uint64_t second_epoch = s.shards.find(2)->epoch;
  EXPECT_EQ(s.shards.join(1, s.alive[1], ""), Status{});
  EXPECT_GT(s.count(2), 0u);
  EXPECT_NE(s.shards.find(1)->epoch, epoch);
  EXPECT_NE(s.shards.find(2)->epoch, second_epoch);
}

TEST(RepairShards, AfterARestartNothingIsGivenOutBeforeAllHadTheTimeToComeBack) {
  simulation::Simulation simulation{1};
  RepairShards shards(simulation.clock(), 1);
  EXPECT_EQ(shards.join(7, "a:1", ""), Status{});
  EXPECT_FALSE(shards.settled());
  EXPECT_TRUE(shards.shards_of(7).empty());
  simulation.run_for(1s);
  EXPECT_EQ(shards.join(8, "b:1", ""), Status{});
  simulation.run_for(2s);
  EXPECT_EQ(shards.join(7, "a:1", ""), Status{});
  shards.expire();
  EXPECT_EQ(shards.shards_of(7).size() + shards.shards_of(8).size(), kRepairShards);
}

TEST(RepairShards, AManagerThatWasStartedAgainReplacesTheOneAtItsAddress) {
  Shards s;
  s.come(1);
  s.pass(2s);
  EXPECT_EQ(s.shards.join(9, s.alive[1], ""), Status{});
  EXPECT_EQ(s.shards.find(1), nullptr);
  EXPECT_EQ(s.count(9), kRepairShards);
}

TEST(RepairShards, ThereIsALimitOfManagers) {
  Shards s;
  for (uint64_t id = 1; id <= RepairShards::kMaxManagers; ++id)
    EXPECT_EQ(s.shards.join(id, "a:" + std::to_string(id), ""), Status{});
  EXPECT_EQ(s.shards.join(1000, "b:1", "").code(), Code::kLimitExceeded);
}

proto::RepairEvent event_of(uint64_t stripe) {
  proto::RepairEvent event;
  event.set_stripe_id(stripe);
  return event;
}

const auto kAll = [](const proto::RepairEvent&) { return true; };

TEST(RepairLog, AReaderSeesWhatItWantsInOrderAndPageByPage) {
  RepairLog log(1000);
  proto::FetchRepairWorkResponse begun;
  log.read(0, 0, kAll, begun);
  EXPECT_TRUE(begun.start_over());
  uint64_t last = begun.last();
  for (uint64_t stripe = 1; stripe <= 100; ++stripe)
    log.append(event_of(stripe));
  std::vector<uint64_t> seen;
  bool more = true;
  while (more) {
    proto::FetchRepairWorkResponse page;
    log.read(last, 7, [](const proto::RepairEvent& event) { return event.stripe_id() % 2 == 0; }, page);
    EXPECT_FALSE(page.start_over());
    EXPECT_LE(page.events_size(), 7);
    for (const auto& event : page.events())
      seen.push_back(event.stripe_id());
    last = page.last();
    more = page.more();
  }
  ASSERT_EQ(seen.size(), 50u);
  for (size_t i = 0; i < seen.size(); ++i)
    EXPECT_EQ(seen[i], 2 * (i + 1));
}

TEST(RepairLog, AReaderThatFellBehindOrIsOfAnEarlierLifeStartsOver) {
  RepairLog log(1000);
  log.append(event_of(1));
  proto::FetchRepairWorkResponse first;
  log.read(999, 0, kAll, first);
  EXPECT_FALSE(first.start_over());
  ASSERT_EQ(first.events_size(), 1);
  for (size_t i = 0; i < RepairLog::kMaxEvents + 1; ++i)
    log.append(event_of(i + 2));
  proto::FetchRepairWorkResponse late;
  log.read(first.last(), 0, kAll, late);
  EXPECT_TRUE(late.start_over());
  for (uint64_t strange : {uint64_t{5}, uint64_t{1} << 60}) {
    proto::FetchRepairWorkResponse answer;
    log.read(strange, 0, kAll, answer);
    EXPECT_TRUE(answer.start_over()) << strange;
    EXPECT_EQ(answer.last(), late.last());
  }
}

}  // namespace
}  // namespace kintsugi::metaserver
