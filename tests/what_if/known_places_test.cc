// Forecasts for a cluster whose chunks' places are known: they are taken as they are, with their policies and lengths.
#include <gtest/gtest.h>

#include "repair_manager/what_if/loss.h"
#include "tests/what_if/quiet.h"

namespace kintsugi::what_if {
namespace {

using repair_manager::StripeView;

constexpr uint64_t kChunkBytes = 64 << 20;
constexpr double kLinkRate = 10e9 / 8;
constexpr uint64_t kFirstId = 1000;  // ids of servers are not their positions

/// Servers of racks of their own, each with `chunks` chunks by its own word, and no stripe that is known yet.
Cluster placed_cluster(uint32_t servers, const char* policy, uint64_t chunks) {
  const erasure::Policy parsed = *erasure::Policy::parse(policy);
  Cluster cluster = *described({.servers = servers,
                                .stripes = chunks * servers / parsed.chunks(),
                                .policy = parsed,
                                .chunk_bytes = kChunkBytes,
                                .link_rate = kLinkRate});
  for (uint32_t i = 0; i < servers; ++i)
    cluster.servers[i].id = ServerId{kFirstId + i};
  cluster.delay_seconds = 0;
  cluster.stripes.emplace();
  return cluster;
}

/// A stripe with its chunks on these servers, by position.
void add_stripe(Cluster& cluster, const char* policy, const std::vector<uint32_t>& places,
                uint64_t chunk_bytes = kChunkBytes) {
  const uint32_t k = erasure::Policy::parse(policy)->k;
  StripeView& stripe = cluster.stripes->emplace_back(StripeView{
      .id = StripeId{7 * cluster.stripes->size() + 5}, .policy = policy, .length = k * chunk_bytes});
  for (const uint32_t place : places)
    stripe.chunks.push_back({.index = static_cast<uint32_t>(stripe.chunks.size()),
                             .server = ServerId{kFirstId + place},
                             .length = chunk_bytes,
                             .available = true});
}

Forecast forecast(const Cluster& cluster, std::vector<uint32_t> lost, double budget = 0) {
  const auto answer = forecast_loss(cluster, {.servers = std::move(lost), .budget = budget});
  EXPECT_TRUE(answer) << answer.error();
  return answer ? *answer : Forecast{};
}

TEST(KnownPlaces, HelpersAreTheServersThatHaveTheChunks) {
  // All stripes of the lost server lie on the same five others. If they were drawn, 29 would help.
  Cluster cluster = placed_cluster(30, "rs-4-2-1024k", 60);
  for (int i = 0; i < 60; ++i)
    add_stripe(cluster, "rs-4-2-1024k", {0, 1, 2, 3, 4, 5});
  const double bound = 4 * 60 * double{kChunkBytes} / (5 * kLinkRate);
  EXPECT_GT(repair_seconds(forecast(cluster, {0})), 0.99 * bound);
  EXPECT_LT(repair_seconds(forecast(cluster, {0})), 1.3 * bound);
  const Forecast answer = forecast(cluster, {0});
  for (const BusyLink& link : answer.busiest)
    if (link.up) EXPECT_TRUE(link.name >= "server-2" && link.name <= "server-6") << link.name;
  cluster.stripes.reset();
  EXPECT_LT(repair_seconds(forecast(cluster, {0})), 0.4 * bound);
}

TEST(KnownPlaces, StripesThatLieElsewhereAreNotRepaired) {
  Cluster cluster = placed_cluster(12, "rs-4-2-1024k", 10);
  add_stripe(cluster, "rs-4-2-1024k", {0, 1, 2, 3, 4, 5});
  add_stripe(cluster, "rs-4-2-1024k", {1, 2, 3, 4, 5, 6});
  const Forecast answer = forecast(cluster, {0});
  EXPECT_EQ(answer.chunks, 1);
  EXPECT_EQ(answer.stripes, 1);
  EXPECT_EQ(answer.simulated, 1u);
}

TEST(KnownPlaces, EachStripeHasItsOwnPolicyAndLength) {
  Cluster cluster = placed_cluster(12, "rs-4-2-1024k", 10);
  add_stripe(cluster, "rs-4-2-1024k", {0, 1, 2, 3, 4, 5});
  add_stripe(cluster, "replication-3-1024k", {6, 0, 7}, 1 << 20);
  add_stripe(cluster, "replication-3-1024k", {0, 8, 1}, 2 << 20);
  const Forecast answer = forecast(cluster, {0, 1});
  EXPECT_EQ(answer.bytes, 2.0 * kChunkBytes + (1 << 20) + 2 * (2 << 20));
  EXPECT_EQ(answer.chunks, 5);
  ASSERT_EQ(answer.endangered.size(), 2u);
  EXPECT_EQ(answer.endangered[0].spare, 0u) << "two lack two chunks";
  EXPECT_EQ(answer.endangered[0].stripes, 2);
  EXPECT_EQ(answer.endangered[1].stripes, 1);
}

TEST(KnownPlaces, WhatIsMissingAlreadyIsRebuiltWithItsStripe) {
  Cluster cluster = placed_cluster(12, "rs-4-2-1024k", 10);
  add_stripe(cluster, "rs-4-2-1024k", {0, 1, 2, 3, 4, 5});
  add_stripe(cluster, "rs-4-2-1024k", {0, 1, 2, 3, 4, 5});
  StripeView& stripe = cluster.stripes->back();
  stripe.chunks[3].server = ServerId{77};  // of a server that is gone
  stripe.chunks[3].available = false;
  const Forecast answer = forecast(cluster, {0});
  EXPECT_EQ(answer.chunks, 3);
  EXPECT_EQ(answer.endangered.front().spare, 0u);
  EXPECT_TRUE(answer.all_seconds);
  stripe.chunks[4].server = {};
  stripe.chunks[4].available = false;
  EXPECT_EQ(forecast(cluster, {0}).lost_stripes, 1);
}

TEST(KnownPlaces, AServerWithoutStripesCostsNothingWhateverItsHeartbeatsSay) {
  Cluster cluster = placed_cluster(12, "rs-4-2-1024k", 10);
  const Forecast answer = forecast(cluster, {3});
  EXPECT_EQ(answer.chunks, 0);
  EXPECT_FALSE(answer.all_seconds);
}

TEST(KnownPlaces, ASampleTakesStripesOfAllFiles) {
  Cluster cluster = placed_cluster(60, "rs-4-2-1024k", 3000);
  // The first half has its chunks on the first servers, the second half on the others.
  for (uint32_t i = 0; i < 3000; ++i) {
    const uint32_t first = i < 1500 ? 1 : 31;
    std::vector<uint32_t> places{0};
    for (uint32_t c = 0; c < 5; ++c)
      places.push_back(first + (i * 7 + c * 5) % 29);
    add_stripe(cluster, "rs-4-2-1024k", places);
  }
  const auto sample = forecast_loss(cluster, {.servers = {0}, .simulate = 750});
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->simulated, 750u);
  EXPECT_EQ(sample->chunks, 3000);
  // All 58 help. The stripes of one half alone would have 29 helpers, and take twice as long.
  const double bound = 4 * 3000 * double{kChunkBytes} / (58 * kLinkRate);
  EXPECT_NEAR(repair_seconds(*sample), bound, 0.1 * bound);
}

TEST(KnownPlaces, TheClosedFormIsNotUsedForStripesOfSeveralPolicies) {
  Cluster cluster = placed_cluster(13, "rs-4-2-1024k", 20'000);
  for (uint32_t i = 0; i < 20'000; ++i) {
    std::vector<uint32_t> places{0};
    for (uint32_t c = 0; c < 5; ++c)
      places.push_back(1 + (i + c) % 12);
    add_stripe(cluster, "rs-4-2-1024k", places);
  }
  EXPECT_EQ(forecast(cluster, {0}, 0.1).chunks, 20'000);
  add_stripe(cluster, "replication-3-1024k", {6, 0, 7});
  EXPECT_NE(forecast(cluster, {0}, 0.1).method, Method::kClosedForm);
}

}  // namespace
}  // namespace kintsugi::what_if
