// What `kintsugi plan` tells, against values that are worked out here by hand.
#include "repair_manager/what_if/cluster_plan.h"

#include <cmath>

#include <gtest/gtest.h>

#include "repair_manager/what_if/durability.h"

namespace kintsugi::what_if {
namespace {

ClusterShape shape_of(uint32_t servers, uint32_t disks, const char* policy) {
  ClusterShape shape;
  shape.servers = servers;
  shape.disks = disks;
  shape.disk_bytes = 18e12;
  shape.policy = *erasure::Policy::parse(policy);
  shape.link_rate = 25e9 / 8;
  return shape;
}

TEST(ClusterPlan, TellsSpaceAndWhatIsSurvived) {
  const Plan small = *plan(shape_of(12, 8, "rs-8-4-1024k"));
  EXPECT_DOUBLE_EQ(small.raw_bytes, 1728e12);
  EXPECT_DOUBLE_EQ(small.usable_bytes, 1152e12);
  EXPECT_FALSE(small.usable_bytes_without_a_server) << "a stripe needs all twelve";
  EXPECT_EQ(small.disks_survived, 4u);
  const Plan larger = *plan(shape_of(16, 8, "rs-8-4-1024k"));
  EXPECT_DOUBLE_EQ(*larger.usable_bytes_without_a_server, 15 * 8 * 18e12 * 8 / 12);
}

TEST(ClusterPlan, CountsTheLossesThatALocalCodeSurvivesBeyondItsTolerance) {
  // Groups of 4, 4 and 2 global parities. Of the C(10, 4) = 210 sets of four, those leave more than two losses that no
  // group makes good for: 4 of a group (2 sets), 3 of a group and a global parity (2 * 4 * 2), 2 of a group and both
  // global parities (2 * 6).
  const std::vector<double> local = survived_shares(*erasure::Policy::parse("lrc-6-2-2-1024k"));
  EXPECT_DOUBLE_EQ(local[3], 1);
  EXPECT_NEAR(local[4], (210.0 - 2 - 16 - 12) / 210, 1e-12);
  EXPECT_DOUBLE_EQ(local[5], 0);
  const std::vector<double> plain = survived_shares(*erasure::Policy::parse("rs-6-3-1024k"));
  EXPECT_DOUBLE_EQ(plain[3], 1);
  EXPECT_DOUBLE_EQ(plain[4], 0);
}

TEST(ClusterPlan, CountsTheChunksThatARepairReads) {
  EXPECT_DOUBLE_EQ(mean_chunks_read(*erasure::Policy::parse("rs-8-4-1024k")), 8);
  // 14 chunks of the groups are had from 6 others, the two global parities from 12.
  EXPECT_DOUBLE_EQ(mean_chunks_read(*erasure::Policy::parse("lrc-12-2-2-1024k")), (14.0 * 6 + 2 * 12) / 16);
}

TEST(ClusterPlan, TakesWhatTheBusiestResourceTakes) {
  ClusterShape shape = shape_of(101, 10, "rs-8-4-1024k");
  shape.link_rate = 1e9;
  shape.disk_rate = 1e9;
  shape.full = 0.5;
  // A server has 90 TB. Its 100 companions send 8 times as much.
  RepairTime server = plan(shape)->server;
  EXPECT_EQ(server.limit, Limit::kLinks);
  EXPECT_NEAR(server.seconds, 1.2 * 8 * 90e12 / (100 * 1e9), 1e-6);
  EXPECT_FALSE(server.waits_for_replacement);
  // Their 1,000 disks, a hundred times slower, read 8 chunks and write one.
  shape.disk_rate = 1e7;
  server = plan(shape)->server;
  EXPECT_EQ(server.limit, Limit::kDisks);
  EXPECT_NEAR(server.seconds, 1.2 * 9 * 90e12 / (1000 * 1e7), 1e-6);
  // Nothing is faster than one chunk over one link.
  const RepairTime little = repair_time(shape, {.disks = 1}, 1, 8);
  EXPECT_EQ(little.limit, Limit::kOneChunk);
  EXPECT_NEAR(little.seconds, 1.2 * shape.chunk_bytes / 1e9, 1e-9);
}

TEST(ClusterPlan, SaysWhenALostServerWaitsForItsReplacement) {
  ClusterShape shape = shape_of(12, 8, "rs-8-4-1024k");
  const Plan plan = *what_if::plan(shape);
  EXPECT_TRUE(plan.server.waits_for_replacement);
  // 115.2 TB by the one new server's eight disks: longer than 9 times as much by all 88 others.
  EXPECT_EQ(plan.server.limit, Limit::kReceivers);
  EXPECT_NEAR(plan.server.seconds, 1.2 * 0.8 * 8 * 18e12 / (8 * 150e6), 1e-6);
  EXPECT_FALSE(plan.disk.waits_for_replacement) << "the disk's own server has others";
  EXPECT_NEAR(plan.disk.seconds, 1.2 * 0.8 * 18e12 / (7 * 150e6), 1e-6);
}

TEST(ClusterPlan, SurvivesARackOnlyWithFewEnoughChunksInIt) {
  ClusterShape shape = shape_of(18, 4, "rs-6-3-1024k");
  shape.racks = 3;
  Plan plan = *what_if::plan(shape);
  EXPECT_EQ(*plan.racks_survived, 1u);
  ASSERT_TRUE(plan.rack);
  EXPECT_DOUBLE_EQ(plan.lost_rack_bytes, 6 * 4 * 0.8 * 18e12);
  EXPECT_FALSE(plan.rack->waits_for_replacement);
  shape.racks = 2;  // five chunks in a rack, and three may be lost
  plan = *what_if::plan(shape);
  EXPECT_EQ(*plan.racks_survived, 0u);
  EXPECT_FALSE(plan.rack);
}

TEST(Durability, OfTwoCopiesOnTwoDisksIsThatOfAMirror) {
  // Two servers of one disk each, two copies: after the first loss the other disk is all that is left, until a new one
  // is there and filled.
  ClusterShape shape = shape_of(2, 1, "replication-2-1024k");
  shape.server_failures = 0;
  shape.disk_failures = 0.5;
  shape.full = 1;
  const double copied =
      1.2 * 18e12 * 2 / 150e6;  // the disk that is left reads it, and is counted for writing, too
  const double exposed = (10 + 24 * 3600 + copied) / (365.25 * 24 * 3600);
  const double second = 0.5 / (1 / exposed + 0.5);
  EXPECT_NEAR(losses_a_year(shape), 2 * 0.5 * second, 1e-9);
  EXPECT_NEAR(plan(shape)->loss_probability, 1 - std::exp(-2 * 0.5 * second), 1e-9);
}

TEST(Durability, CountsOnlyDisksThatShareAStripe) {
  // One stripe of two chunks on 101 servers: of 100 others one alone is in danger.
  ClusterShape shape = shape_of(101, 1, "replication-2-1024k");
  shape.server_failures = 0;
  shape.full = 1;
  shape.disk_bytes = shape.chunk_bytes * 2 / 101;
  // Its one chunk is rebuilt as fast as a link carries it.
  const double exposed = (10 + 1.2 * shape.chunk_bytes / (25e9 / 8)) / (365.25 * 24 * 3600);
  const double second = 0.015 / (1 / exposed + 0.015);
  EXPECT_NEAR(losses_a_year(shape) / (101 * 0.015 * second), 1, 1e-9);
}

TEST(Durability, GetsBetterWithParitiesAndWorseWithFailures) {
  const double plain = losses_a_year(shape_of(40, 8, "rs-8-3-1024k"));
  EXPECT_GT(plain, 0);
  EXPECT_LT(losses_a_year(shape_of(40, 8, "rs-8-4-1024k")), plain / 10);
  ClusterShape worse = shape_of(40, 8, "rs-8-3-1024k");
  worse.disk_failures *= 2;
  EXPECT_GT(losses_a_year(worse), 2 * plain);
  EXPECT_LT(losses_a_year(shape_of(10000, 36, "rs-16-16-1024k")), 1e-12);
  ClusterShape never = shape_of(40, 8, "rs-8-3-1024k");
  never.disk_failures = never.server_failures = 0;
  EXPECT_EQ(plan(never)->loss_probability, 0);
}

TEST(ClusterPlan, RefusesWhatMakesNoSense) {
  EXPECT_EQ(plan(shape_of(11, 8, "rs-8-4-1024k")).error().message(),
            "a stripe of rs-8-4-1024k needs 12 servers, one for each chunk, and there are 11");
  ClusterShape racks = shape_of(12, 8, "rs-8-4-1024k");
  racks.racks = 13;
  EXPECT_EQ(plan(racks).error().code(), Code::kInvalidArgument);
  ClusterShape rate = shape_of(12, 8, "rs-8-4-1024k");
  rate.link_rate = std::nan("");
  EXPECT_EQ(plan(rate).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kintsugi::what_if
