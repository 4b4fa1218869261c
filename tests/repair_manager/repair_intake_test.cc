#include "repair_manager/manager/repair_intake.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "repair_manager/view/server_table.h"

namespace kintsugi::repair_manager {
namespace {

constexpr ServerId kDead{7}, kDrained{8};

/// Stripes of rs-2-1 on the servers 1, 2 and 3, but for what a test changes.
class Stripes final : public ClusterView {
 public:
  std::map<StripeId, StripeView> stripes;
  std::set<StripeId> not_fetched;

  StripeView& add(uint64_t id) {
    StripeView& stripe = stripes[StripeId{id}];
    stripe = {.id = StripeId{id}, .policy = "rs-2-1-64k", .length = 128 << 10, .chunks = {}};
    for (uint32_t index = 0; index < 3; ++index)
      stripe.chunks.push_back(
          {.index = index, .server = ServerId{index + 1}, .length = 64 << 10, .available = true});
    return stripe;
  }

  std::vector<ServerView> servers() const override { return {}; }
  std::optional<StripeView> stripe(StripeId id) const override {
    const auto found = stripes.find(id);
    return found == stripes.end() ? std::nullopt : std::optional(found->second);
  }
  bool fetched(StripeId id) const override { return !not_fetched.contains(id); }
  bool deletion_pending(ChunkId, ServerId) const override { return false; }
  std::string capability(ChunkId, uint32_t, WallTime) const override { return {}; }
  asio::awaitable<Result<proto::RepairChunkResponse>> execute(Context, runtime::Endpoint,
                                                              proto::RepairChunkRequest) override {
    co_return Status{Code::kNotSupported, "nothing is repaired here"};
  }
  asio::awaitable<Status> commit_repair(Context, ChunkId, ServerId, ServerId) override { co_return Status{}; }
  void report_lost(ChunkId, ServerId, const std::string&) override {}
};

ChunkId chunk(uint64_t stripe, uint32_t index = 0) {
  return {StripeId{stripe}, index};
}

std::vector<ChunkId> taken(RepairIntake& intake) {
  std::vector<ChunkId> all;
  size_t most = 100;
  while (const auto entry = intake.take(most))
    all.push_back(entry->chunk);
  return all;
}

TEST(RepairIntake, ChunksLeaveInTheOrderInWhichTheyCameAndWaitForTheirStripes) {
  Stripes view;
  RepairIntake intake(view);
  intake.add({chunk(1), chunk(2)}, {.dead_server = kDead});
  intake.add({}, {});
  intake.add({chunk(3)}, {});
  EXPECT_EQ(intake.chunks(), 3u);
  std::vector<StripeId> next;
  intake.for_each_next(2, [&](StripeId stripe) { next.push_back(stripe); });
  EXPECT_EQ(next, (std::vector{StripeId{1}, StripeId{2}}));
  view.not_fetched = {StripeId{2}};
  EXPECT_EQ(taken(intake), std::vector{chunk(1)});
  view.not_fetched.clear();
  EXPECT_EQ(taken(intake), (std::vector{chunk(2), chunk(3)}));
  EXPECT_TRUE(intake.empty());
}

TEST(RepairIntake, WhatIsCancelledOrAnotherManagersIsForgotten) {
  Stripes view;
  RepairIntake intake(view);
  intake.add({chunk(1), chunk(2)}, {.dead_server = kDead});
  intake.add({chunk(3)}, {.kind = WorkKind::kMove, .moving_from = kDrained});
  intake.add({chunk(4)}, {.kind = WorkKind::kMove, .moving_from = ServerId{1}});
  intake.add({chunk(5)}, {});
  EXPECT_EQ(intake.moves(), 2u);
  intake.server_returned(kDead);
  intake.moves_cancelled(kDrained);
  EXPECT_EQ(intake.chunks(), 2u);
  intake.keep_only([](StripeId stripe) { return stripe == StripeId{5}; });
  EXPECT_EQ(taken(intake), std::vector{chunk(5)});
  EXPECT_EQ(intake.moves(), 0u);
  EXPECT_EQ(intake.chunks(), 0u);
}

TEST(RepairIntake, WhatIsAnotherManagersIsForgottenALittleAtATimeAndWhatComesLaterStays) {
  Stripes view;
  RepairIntake intake(view);
  intake.add({chunk(1), chunk(2), chunk(3), chunk(4)}, {});
  intake.keep_only([](StripeId stripe) { return stripe == StripeId{4}; });
  intake.add({chunk(1)}, {});
  std::vector<StripeId> next;
  intake.for_each_next(5, [&](StripeId stripe) { next.push_back(stripe); });
  EXPECT_EQ(next, (std::vector{StripeId{4}, StripeId{1}})) << "nothing is fetched for the others";
  size_t most = 2;
  EXPECT_FALSE(intake.take(most)) << "it has looked at two, which it was to forget";
  EXPECT_EQ(most, 0u);
  EXPECT_EQ(intake.chunks(), 3u);
  EXPECT_EQ(taken(intake), (std::vector{chunk(4), chunk(1)}));
}

TEST(RepairIntake, WhatIsWhereItShouldBeIsNotQueued) {
  Stripes view;
  view.add(1);
  view.add(2).chunks[0].available = false;
  const RepairIntake intake(view);
  QueueEntry healthy{.chunk = chunk(1)}, unknown{.chunk = chunk(9)}, no_such{.chunk = chunk(1, 3)};
  EXPECT_FALSE(intake.look_up(healthy, {}));
  EXPECT_FALSE(intake.look_up(unknown, {}));
  EXPECT_FALSE(intake.look_up(no_such, {}));
  QueueEntry moved{.chunk = chunk(1), .kind = WorkKind::kMove, .moving_from = kDrained};
  EXPECT_FALSE(intake.look_up(moved, {})) << "it is not there any more";
  moved.moving_from = ServerId{1};
  EXPECT_TRUE(intake.look_up(moved, {}));
  QueueEntry lost{.chunk = chunk(2), .kind = WorkKind::kMove, .moving_from = ServerId{1}};
  EXPECT_FALSE(intake.look_up(lost, {})) << "what is lost is not moved";
}

TEST(RepairIntake, AStripeThatCanLoseNoMoreIsRepairedAtOnce) {
  Stripes view;
  view.add(1).chunks[2].available = false;
  const RepairIntake intake(view);
  QueueEntry entry{.chunk = chunk(1, 2), .lost_at = TimePoint{10s}, .due = TimePoint{25s}};
  ASSERT_TRUE(intake.look_up(entry, {}));
  EXPECT_EQ(entry.spare, 0);
  EXPECT_EQ(entry.due, entry.lost_at);
}

// ---- servers in maintenance

/// Servers 1 to 9, alive but for those in `dead`; those in `maintained` are away for a while.
ServerTable servers_with(const std::set<uint64_t>& dead, const std::set<uint64_t>& maintained) {
  std::vector<ServerView> servers;
  for (uint64_t id = 1; id <= 9; ++id)
    servers.push_back({.id = ServerId{id},
                       .alive = !dead.contains(id),
                       .maintenance_left = maintained.contains(id) ? Duration(1h) : Duration{}});
  return ServerTable(std::move(servers));
}

/// What look_up() makes of the loss of chunk 0 of a stripe on the servers 1 to k + m that lacks the chunks of `dead`.
QueueEntry looked_up(const std::string& policy, const std::set<uint64_t>& dead,
                     const std::set<uint64_t>& maintained) {
  Stripes view;
  StripeView& stripe = view.add(1);
  stripe.policy = policy;
  stripe.chunks.clear();
  const uint32_t count = policy == "rs-6-3-64k" ? 9 : policy == "rs-4-2-64k" ? 6 : 3;
  for (uint32_t index = 0; index < count; ++index)
    stripe.chunks.push_back({.index = index,
                             .server = ServerId{index + 1},
                             .length = 64 << 10,
                             .available = !dead.contains(index + 1)});
  QueueEntry entry{.chunk = chunk(1), .lost_at = TimePoint{10s}, .due = TimePoint{25s}};
  EXPECT_TRUE(RepairIntake(view).look_up(entry, servers_with(dead, maintained)));
  return entry;
}

bool waits(const QueueEntry& entry) {
  return entry.due > entry.lost_at;
}

TEST(RepairIntake, AServerInMaintenanceIsWaitedForWhileItsStripesHaveASpareChunk) {
  EXPECT_TRUE(waits(looked_up("rs-6-3-64k", {1}, {1})));
  EXPECT_TRUE(waits(looked_up("rs-4-2-64k", {1}, {1})));
  EXPECT_FALSE(waits(looked_up("rs-4-2-64k", {1}, {}))) << "without maintenance one spare chunk is too few";
  EXPECT_FALSE(waits(looked_up("rs-2-1-64k", {1}, {1}))) << "the next loss would make it unreadable";
  EXPECT_TRUE(waits(looked_up("rs-6-3-64k", {1, 2}, {1, 2})));
  EXPECT_FALSE(waits(looked_up("rs-6-3-64k", {1, 2, 3}, {1, 2, 3})));
}

TEST(RepairIntake, AFurtherLossThatLeavesOneSpareChunkEndsTheWait) {
  EXPECT_FALSE(waits(looked_up("rs-6-3-64k", {1, 2}, {1}))) << "server 2 is really dead";
  EXPECT_FALSE(waits(looked_up("rs-6-3-64k", {1, 2}, {2})));
  EXPECT_FALSE(waits(looked_up("rs-4-2-64k", {1, 2}, {1})));
}

/// Adds a stripe of rs-4-2 whose first chunk is lost.
StripeView& add_damaged_stripe(Stripes& view) {
  StripeView& stripe = view.add(1);
  stripe.policy = "rs-4-2-64k";
  for (uint32_t index = 3; index < 6; ++index)
    stripe.chunks.push_back(
        {.index = index, .server = ServerId{index + 1}, .length = 64 << 10, .available = true});
  stripe.chunks[0].available = false;
  return stripe;
}

TEST(RepairIntake, AChunkThatAServerInMaintenanceLostWhileItRunsIsAFurtherLoss) {
  Stripes view;
  add_damaged_stripe(view);
  QueueEntry entry{.chunk = chunk(1), .lost_at = TimePoint{10s}, .due = TimePoint{25s}};
  ASSERT_TRUE(RepairIntake(view).look_up(entry, servers_with({}, {1})));
  EXPECT_FALSE(waits(entry));
}

TEST(RepairIntake, AChunkThatWasLostBeforeItsServerWentAwayIsAFurtherLoss) {
  Stripes view;
  StripeView& stripe = add_damaged_stripe(view);
  QueueEntry entry{.chunk = chunk(1), .lost_at = TimePoint{10s}, .due = TimePoint{25s}};
  ASSERT_TRUE(RepairIntake(view).look_up(entry, servers_with({1}, {1})));
  EXPECT_TRUE(waits(entry));
  stripe.chunks[0].lost = true;
  ASSERT_TRUE(RepairIntake(view).look_up(entry, servers_with({1}, {1})));
  EXPECT_FALSE(waits(entry)) << "the server comes back without it";
}

}  // namespace
}  // namespace kintsugi::repair_manager
