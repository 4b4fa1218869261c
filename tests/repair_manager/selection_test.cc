#include "repair_manager/plan/selection.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "repair_manager/plan/destination.h"
#include "tests/expect_ok.h"

namespace kintsugi::repair_manager {
namespace {

constexpr uint64_t kGigabyte = 1 << 30;

/// RS(6,3) on servers 1..9, three racks of four servers; 10, 11 and 12 hold nothing. Chunk 0 (server 1) is
/// lost.
struct Cluster {
  Cluster() {
    stripe.id = StripeId{5};
    for (uint64_t id = 1; id <= 12; ++id)
      servers.push_back({.id = ServerId{id},
                         .rack = std::string(1, static_cast<char>('a' + (id - 1) % 3)),
                         .alive = id != 1,
                         .free_bytes = kGigabyte});
    for (uint32_t i = 0; i < 9; ++i)
      stripe.chunks.push_back(
          {.index = i, .server = ServerId{i + 1}, .length = 1 << 20, .available = i != 0});
  }

  SelectionInput input() {
    table = ServerTable(servers);
    return {.stripe = stripe,
            .lost = {0},
            .policy = policy,
            .servers = table,
            .slots = slots,
            .excluded = excluded,
            .suspects = suspects,
            .receiving = receiving,
            .rotation = rotation};
  }
  ServerView& server(uint64_t id) { return servers[id - 1]; }

  std::vector<ServerView> servers;
  StripeView stripe;
  erasure::Policy policy{.k = 6, .m = 3};
  SlotTable slots{2};
  ServerTable table;
  std::vector<ServerId> excluded, receiving;
  std::set<ServerId> suspects;
  uint32_t rotation = 0;
};

/// Chunks that help, best first: k of them.
Result<std::vector<uint32_t>> select_helpers(const SelectionInput& input) {
  KINTSUGI_ASSIGN(const std::vector<HelperCandidate> candidates, rank_helpers(input));
  std::vector<uint32_t> helpers;
  for (size_t i = 0; i < input.policy.k; ++i)
    helpers.push_back(candidates[i].index);
  return helpers;
}

TEST(Selection, CoefficientsAreThoseOfTheText) {
  const Coefficients c = coefficients(6, 64 << 20);
  EXPECT_NEAR(c.a1, 0.36, 0.005);
  EXPECT_EQ(c.a2, 1.0);
  EXPECT_NEAR(c.a3, 0.005, 0.0005);
  EXPECT_EQ(c.b1, 1.0);
  EXPECT_EQ(c.b2, c.a3);
}

TEST(Selection, WeightsFollowEquations42And43) {
  const Coefficients c = coefficients(6, 64 << 20);
  EXPECT_DOUBLE_EQ(source_weight(c, true, 2, 100), c.a1 - 2 - c.a3 * 100);
  EXPECT_DOUBLE_EQ(destination_weight(c, 2, 100), -(2 + c.b2 * 100));
}

TEST(Selection, TakesTheLeastBusyHelpersBestFirst) {
  Cluster cluster;
  const ServerId busy[] = {ServerId{2}};
  cluster.slots.acquire(busy, ServerId{11}, 0);
  cluster.server(3).user_bytes_per_second = 500 << 20;
  cluster.stripe.chunks[8].cached = true;
  const auto helpers = *select_helpers(cluster.input());
  ASSERT_EQ(helpers.size(), 6u);
  EXPECT_EQ(helpers[0], 8u) << "its chunk is in memory";
  EXPECT_EQ(std::count(helpers.begin(), helpers.end(), 1u), 0) << "server 2 is in another repair";
  EXPECT_EQ(std::count(helpers.begin(), helpers.end(), 2u), 0) << "server 3 is busy with users";
  EXPECT_EQ(std::count(helpers.begin(), helpers.end(), 0u), 0) << "the lost chunk";
}

TEST(Selection, ExcludedHelpersComeLastAndOnlyIfNeeded) {
  Cluster cluster;
  cluster.excluded = {ServerId{4}, ServerId{5}};
  auto helpers = *select_helpers(cluster.input());
  EXPECT_EQ(std::count(helpers.begin(), helpers.end(), 3u), 0);
  EXPECT_EQ(std::count(helpers.begin(), helpers.end(), 4u), 0);
  cluster.excluded = {ServerId{4}, ServerId{5}, ServerId{6}};
  helpers = *select_helpers(cluster.input());
  EXPECT_EQ(helpers.size(), 6u) << "five others are not enough";
}

TEST(Selection, ServersFoundSlowAreTakenOnlyWhereNobodyElseCan) {
  Cluster cluster;
  cluster.server(4).slow = cluster.server(5).slow = true;
  for (uint64_t busy : {2u, 3u, 6u}) {  // others go first even when they do something already
    const ServerId server[] = {ServerId{busy}};
    cluster.slots.acquire(server, ServerId{20 + busy}, 0);
  }
  auto helpers = *select_helpers(cluster.input());
  EXPECT_EQ(std::count(helpers.begin(), helpers.end(), 3u), 0);
  EXPECT_EQ(std::count(helpers.begin(), helpers.end(), 4u), 0);
  cluster.stripe.chunks[8].available = false;
  helpers = *select_helpers(cluster.input());
  ASSERT_EQ(helpers.size(), 6u) << "six others there are not: one of the two helps";
  for (ServerView& server : cluster.servers)
    server.slow = true;
  EXPECT_TRUE(select_helpers(cluster.input())) << "it is a preference only";
}

TEST(Selection, AServerFoundSlowIsADestinationOnlyToKeepTheRackSpread) {
  Cluster cluster;
  cluster.servers.push_back({.id = ServerId{13}, .rack = "a", .alive = true, .free_bytes = kGigabyte});
  const ServerId usual = *select_destination(cluster.input(), 0);
  const ServerId other{usual == ServerId{10} ? uint64_t{13} : uint64_t{10}};
  cluster.server(usual.value).slow = true;
  EXPECT_EQ(*select_destination(cluster.input(), 0), other);
  cluster.server(other.value).alive = false;
  EXPECT_EQ(*select_destination(cluster.input(), 0), usual) << "the other racks have their share";
}

TEST(Selection, RotationLeavesEveryHelperOutOnce) {
  Cluster cluster;
  std::set<uint32_t> left_out;
  for (cluster.rotation = 1; cluster.rotation <= 4; ++cluster.rotation) {
    const auto helpers = *select_helpers(cluster.input());
    for (uint32_t i = 1; i < 9; ++i)
      if (std::count(helpers.begin(), helpers.end(), i) == 0) left_out.insert(i);
  }
  EXPECT_EQ(left_out.size(), 8u);
}

TEST(Selection, TooFewHelpersIsUnavailableAndBusyOnesAreALimit) {
  Cluster cluster;
  cluster.stripe.chunks[1].available = cluster.stripe.chunks[2].available = false;
  EXPECT_TRUE(select_helpers(cluster.input()));
  const ServerId busy[] = {ServerId{4}, ServerId{4}};
  cluster.slots.acquire(busy, ServerId{11}, 0);
  EXPECT_EQ(select_helpers(cluster.input()).error().code(), Code::kLimitExceeded);
  cluster.stripe.chunks[5].available = false;
  EXPECT_EQ(select_helpers(cluster.input()).error().code(), Code::kUnavailable);
}

TEST(Selection, EmptyDataChunksHelpWithoutAServer) {
  Cluster cluster;
  for (uint32_t i : {1u, 2u, 3u}) {
    cluster.stripe.chunks[i] = {.index = i};
  }
  cluster.stripe.chunks[8].available = false;
  EXPECT_TRUE(select_helpers(cluster.input()));
}

TEST(Selection, DestinationKeepsTheRackSpreadAndHoldsNoChunkOfTheStripe) {
  Cluster cluster;
  // Racks b and c hold three chunks each, rack a two and the lost one: three for each rack is the placement's
  // spread.
  EXPECT_EQ(*select_destination(cluster.input(), 0), ServerId{10});
  cluster.server(10).alive = false;
  EXPECT_TRUE(*select_destination(cluster.input(), 0) == ServerId{11} ||
              *select_destination(cluster.input(), 0) == ServerId{12})
      << "a rack too full is better than no repair";
  cluster.server(11).alive = cluster.server(12).alive = false;
  EXPECT_EQ(select_destination(cluster.input(), 0).error().code(), Code::kNoSpace);
}

TEST(Selection, ACorruptChunkMayBeRebuiltInPlaceWhenNoOtherServerIsLeft) {
  Cluster cluster;
  cluster.server(1).alive = true;
  EXPECT_EQ(*select_destination(cluster.input(), 0), ServerId{10});
  cluster.servers.resize(9);
  EXPECT_EQ(*select_destination(cluster.input(), 0), ServerId{1});
}

TEST(Selection, DestinationHasSpaceAlsoForWhatIsOnItsWay) {
  Cluster cluster;
  cluster.server(10).free_bytes = kDestinationMarginBytes + (1 << 20);
  EXPECT_EQ(*select_destination(cluster.input(), 0), ServerId{10});
  cluster.slots.acquire({}, ServerId{10}, 1);
  EXPECT_NE(*select_destination(cluster.input(), 0), ServerId{10});
}

TEST(Selection, DestinationIsTheLeastLoaded) {
  Cluster cluster;
  cluster.servers.push_back({.id = ServerId{13}, .rack = "a", .alive = true, .free_bytes = kGigabyte});
  cluster.slots.acquire({}, ServerId{10}, 0);
  EXPECT_EQ(*select_destination(cluster.input(), 0), ServerId{13});
  cluster.server(13).user_bytes_per_second = uint64_t{100} << 30;
  EXPECT_EQ(*select_destination(cluster.input(), 0), ServerId{10});
  cluster.suspects = {ServerId{10}};
  cluster.server(13).user_bytes_per_second = 1;
  EXPECT_EQ(*select_destination(cluster.input(), 0), ServerId{13});
}

TEST(Selection, TwoRepairsOfAStripeGoToDifferentServers) {
  Cluster cluster;
  cluster.receiving = {ServerId{10}};
  EXPECT_NE(*select_destination(cluster.input(), 0), ServerId{10});
}

TEST(Selection, AWantedDestinationIsChecked) {
  Cluster cluster;
  KINTSUGI_EXPECT_OK(check_destination(cluster.input(), 0, ServerId{11}));
  EXPECT_EQ(check_destination(cluster.input(), 0, ServerId{2}).code(), Code::kInvalidArgument);
  EXPECT_EQ(check_destination(cluster.input(), 0, ServerId{99}).code(), Code::kInvalidArgument);
  EXPECT_EQ(check_destination(cluster.input(), 0, ServerId{1}).code(), Code::kUnavailable);
  cluster.server(12).free_bytes = 5;
  EXPECT_EQ(check_destination(cluster.input(), 0, ServerId{12}).code(), Code::kNoSpace);
}

TEST(Selection, AWishedDestinationMayHaveToKeepTheRackSpread) {
  Cluster cluster;
  const auto check = [&](uint64_t server) {
    return check_destination(cluster.input(), 0, ServerId{server}, {}, /*keep_racks=*/true).code();
  };
  EXPECT_EQ(check(10), Code::kOk) << "in the lost chunk's rack";
  EXPECT_EQ(check(11), Code::kNoSpace) << "its rack has three of nine";
  cluster.servers.push_back(cluster.server(10));
  cluster.servers.back().id = ServerId{13};
  cluster.receiving = {ServerId{13}};
  EXPECT_EQ(check(10), Code::kNoSpace) << "a repair that runs fills the rack";
  // A chunk that is moved within a crowded rack makes nothing worse.
  cluster.server(1).alive = cluster.stripe.chunks[0].available = true;
  EXPECT_EQ(check(10), Code::kOk);
}

bool helps(const std::vector<uint32_t>& helpers, uint32_t index) {
  return std::find(helpers.begin(), helpers.end(), index) != helpers.end();
}

TEST(Selection, SlowServersComeLast) {
  Cluster cluster;
  for (ServerView& server : cluster.servers)
    server.up_bytes_per_second = server.down_bytes_per_second = 100'000'000;
  cluster.server(3).up_bytes_per_second = 25'000'000;
  cluster.server(5).down_bytes_per_second = 25'000'000;
  auto helpers = *select_helpers(cluster.input());
  EXPECT_FALSE(helps(helpers, 2));
  EXPECT_FALSE(helps(helpers, 4));
  cluster.server(3).up_bytes_per_second = 90'000'000;
  EXPECT_TRUE(helps(*select_helpers(cluster.input()), 2)) << "nearly as fast as the others";
  cluster.server(10).up_bytes_per_second = 25'000'000;
  cluster.servers.push_back({.id = ServerId{13}, .rack = "a", .alive = true, .free_bytes = kGigabyte});
  EXPECT_EQ(*select_destination(cluster.input(), 0), ServerId{13});
}

TEST(Selection, BusyServersAndSuspectsComeLast) {
  Cluster cluster;
  cluster.server(4).busy = 0.99;
  cluster.suspects = {ServerId{6}};
  const auto helpers = *select_helpers(cluster.input());
  EXPECT_FALSE(helps(helpers, 3));
  EXPECT_FALSE(helps(helpers, 5));
  cluster.server(4).busy = 0.5;
  EXPECT_TRUE(helps(*select_helpers(cluster.input()), 3));
}

TEST(Selection, HotChunksArePreferredButVeryHotOnesAndLoadedServersAreSpared) {
  Cluster cluster;
  cluster.stripe.chunks[3].cached = cluster.stripe.chunks[4].cached = true;
  cluster.stripe.chunks[3].heat = 2;
  cluster.stripe.chunks[4].heat = 50;
  for (ServerView& server : cluster.servers)
    server.up_bytes_per_second = server.down_bytes_per_second = 100'000'000;
  cluster.server(7).user_bytes_per_second = 60'000'000;
  const auto helpers = *select_helpers(cluster.input());
  EXPECT_EQ(helpers[0], 3u) << "in memory";
  EXPECT_FALSE(helps(helpers, 4)) << "read all the time";
  EXPECT_FALSE(helps(helpers, 6)) << "its users need its link";
}

TEST(Selection, ALoadedServersLinkHasLessForRepairs) {
  const ServerTable table({{.id = ServerId{1}, .up_bytes_per_second = 100, .down_bytes_per_second = 80},
                           {.id = ServerId{2}},
                           {.id = ServerId{3},
                            .user_bytes_per_second = 30,
                            .up_bytes_per_second = 100,
                            .down_bytes_per_second = 80}});
  EXPECT_EQ(table.link(*table.find(ServerId{2}), 7).up, 100) << "unknown: as the others";
  EXPECT_EQ(table.link(*table.find(ServerId{3}), 7).up, 70);
  EXPECT_EQ(table.link(*table.find(ServerId{3}), 7).down, 50);
  const ServerTable unknown({{.id = ServerId{1}}});
  EXPECT_EQ(unknown.link(*unknown.find(ServerId{1}), 7).up, 7);
}

TEST(Selection, NothingNewGoesToADrainingServer) {
  Cluster cluster;
  cluster.server(10).draining = true;
  EXPECT_NE(*select_destination(cluster.input(), 0), ServerId{10});
  EXPECT_EQ(check_destination(cluster.input(), 0, ServerId{10}).code(), Code::kUnavailable);
}

TEST(Selection, ReadsTakeBusyServersWhenNoOthersAreLeft) {
  Cluster cluster;
  const ServerId busy[] = {ServerId{4}, ServerId{4}};
  cluster.slots.acquire(busy, ServerId{11}, 0);
  auto candidates = *rank_helpers(cluster.input(), Busy::kTake);
  EXPECT_EQ(candidates.back().index, 3u);
  EXPECT_EQ(candidates.size(), 8u);
}

TEST(Selection, AmongManyServersDestinationsAreSpreadEvenlyAndFoundEvenIfRare) {
  Cluster cluster;
  for (uint64_t id = 13; id <= 2000; ++id)
    cluster.servers.push_back(
        {.id = ServerId{id}, .rack = fmt::format("r{}", id % 40), .alive = true, .free_bytes = kGigabyte});
  const SelectionInput input = cluster.input();
  uint32_t most = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    cluster.stripe.id = StripeId{i + 1};
    const ServerId destination = *select_destination(input, 0);
    cluster.slots.add_destination(destination, 1);
    most = std::max(most, cluster.slots.load(destination).as_destination);
    if (most == 2) {
      EXPECT_GE(i, 1500u) << "most servers have nothing to do";
      break;
    }
  }
  for (ServerView& server : cluster.servers)
    server.free_bytes = server.id == ServerId{1777} ? kGigabyte : 0;
  EXPECT_EQ(*select_destination(cluster.input(), 0), ServerId{1777});
}

TEST(SlotTable, CountsHelpersAndDestinationsSeparatelyAndGivesThemBack) {
  SlotTable slots(1);
  const ServerId helpers[] = {ServerId{1}, ServerId{2}};
  slots.acquire(helpers, ServerId{3}, 100);
  EXPECT_FALSE(slots.can_help(ServerId{1}));
  EXPECT_TRUE(slots.can_receive(ServerId{1}));
  EXPECT_FALSE(slots.can_receive(ServerId{3}));
  EXPECT_EQ(slots.load(ServerId{3}).incoming_bytes, 100u);
  slots.release(helpers, ServerId{3}, 100);
  EXPECT_TRUE(slots.can_help(ServerId{1}));
  EXPECT_TRUE(slots.can_receive(ServerId{3}));
}

}  // namespace
}  // namespace kintsugi::repair_manager
