#include "repair_manager/selection.h"

#include <algorithm>

#include <gtest/gtest.h>

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
  EXPECT_EQ(usable_chunks(cluster.stripe, 6, 0), 7u);
  EXPECT_TRUE(select_helpers(cluster.input()));
}

TEST(Selection, DestinationKeepsTheRackSpreadAndHoldsNoChunkOfTheStripe) {
  Cluster cluster;
  // Racks b and c hold three chunks each, rack a two and the lost one: three for each rack is the placement's
  // spread.
  EXPECT_EQ(*select_destination(cluster.input()), ServerId{10});
  cluster.server(10).alive = false;
  EXPECT_TRUE(*select_destination(cluster.input()) == ServerId{11} ||
              *select_destination(cluster.input()) == ServerId{12})
      << "a rack too full is better than no repair";
  cluster.server(11).alive = cluster.server(12).alive = false;
  EXPECT_EQ(select_destination(cluster.input()).error().code(), Code::kNoSpace);
}

TEST(Selection, ACorruptChunkMayBeRebuiltInPlaceWhenNoOtherServerIsLeft) {
  Cluster cluster;
  cluster.server(1).alive = true;
  EXPECT_EQ(*select_destination(cluster.input()), ServerId{10});
  cluster.servers.resize(9);
  EXPECT_EQ(*select_destination(cluster.input()), ServerId{1});
}

TEST(Selection, DestinationHasSpaceAlsoForWhatIsOnItsWay) {
  Cluster cluster;
  cluster.server(10).free_bytes = kDestinationMarginBytes + (1 << 20);
  EXPECT_EQ(*select_destination(cluster.input()), ServerId{10});
  cluster.slots.acquire({}, ServerId{10}, 1);
  EXPECT_NE(*select_destination(cluster.input()), ServerId{10});
}

TEST(Selection, DestinationIsTheLeastLoaded) {
  Cluster cluster;
  cluster.servers.push_back({.id = ServerId{13}, .rack = "a", .alive = true, .free_bytes = kGigabyte});
  cluster.slots.acquire({}, ServerId{10}, 0);
  EXPECT_EQ(*select_destination(cluster.input()), ServerId{13});
  cluster.server(13).user_bytes_per_second = uint64_t{100} << 30;
  EXPECT_EQ(*select_destination(cluster.input()), ServerId{10});
  cluster.suspects = {ServerId{10}};
  cluster.server(13).user_bytes_per_second = 1;
  EXPECT_EQ(*select_destination(cluster.input()), ServerId{13});
}

TEST(Selection, TwoRepairsOfAStripeGoToDifferentServers) {
  Cluster cluster;
  cluster.receiving = {ServerId{10}};
  EXPECT_NE(*select_destination(cluster.input()), ServerId{10});
}

TEST(Selection, AWantedDestinationIsChecked) {
  Cluster cluster;
  EXPECT_TRUE(check_destination(cluster.input(), ServerId{11}).ok());
  EXPECT_EQ(check_destination(cluster.input(), ServerId{2}).code(), Code::kInvalidArgument);
  EXPECT_EQ(check_destination(cluster.input(), ServerId{99}).code(), Code::kInvalidArgument);
  EXPECT_EQ(check_destination(cluster.input(), ServerId{1}).code(), Code::kUnavailable);
  cluster.server(12).free_bytes = 5;
  EXPECT_EQ(check_destination(cluster.input(), ServerId{12}).code(), Code::kNoSpace);
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
