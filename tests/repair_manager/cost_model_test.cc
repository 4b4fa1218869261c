#include "repair_manager/trees/cost_model.h"

#include <gtest/gtest.h>

#include "common/proto/names.h"
#include "repair_manager/trees/tree_choice.h"

namespace kintsugi::repair_manager {
namespace {

constexpr uint64_t kChunk = 64 << 20;
constexpr LinkModel kLab{.bytes_per_second = 25e6};  // 200 Mbit/s
constexpr LinkModel kGigabit{.bytes_per_second = 125e6};

double floor_of(const LinkModel& link, uint64_t bytes = kChunk) {
  return static_cast<double>(bytes) / link.bytes_per_second;  // C/B
}

TreeChoice choose(Shape shape, uint32_t k, uint64_t bytes, uint64_t slice, const LinkModel& link,
                  bool read = false) {
  const std::vector<LinkRate> helpers(k, {link.bytes_per_second, link.bytes_per_second});
  return choose_trees({.helpers = helpers,
                       .needed = k,
                       .root_down = link.bytes_per_second,
                       .load = {.sum_bytes = bytes},
                       .wanted = shape,
                       .slice_bytes = slice,
                       .read = read},
                      link);
}

double seconds(Shape shape, uint32_t k, uint64_t bytes, uint64_t slice, const LinkModel& link) {
  return choose(shape, k, bytes, slice, link).choice.seconds;
}

TEST(CostModel, UnslicedShapesTakeTheTimestepsOfTheTheorem) {
  for (uint32_t k : {6u, 8u, 10u, 12u}) {
    EXPECT_NEAR(seconds(Shape::STAR, k, kChunk, kChunk, kLab) / floor_of(kLab), k, 0.01);
    EXPECT_NEAR(seconds(Shape::STAGGERED, k, kChunk, kChunk, kLab) / floor_of(kLab), k, 0.01);
    EXPECT_NEAR(seconds(Shape::PPR, k, kChunk, kChunk, kLab) / floor_of(kLab), ppr_timesteps(k), 0.01);
    EXPECT_NEAR(seconds(Shape::CHAIN, k, kChunk, kChunk, kLab) / floor_of(kLab), k, 0.01)
        << "an unsliced chain is no pipeline";
  }
  EXPECT_EQ(ppr_timesteps(6), 3u);
  EXPECT_EQ(ppr_timesteps(7), 3u);
  EXPECT_EQ(ppr_timesteps(8), 4u);
}

TEST(CostModel, SlicedChainComesWithinATenthOfTheFloor) {
  for (const LinkModel& link : {kLab, kGigabit})
    for (uint32_t k : {3u, 6u, 8u, 10u, 12u})
      EXPECT_LE(seconds(Shape::CHAIN, k, kChunk, 0, link), 1.10 * floor_of(link)) << k;
}

TEST(CostModel, FillingThePipelineAndTheCostOfSlicesAreBothSmall) {
  for (const LinkModel& link : {kLab, kGigabit}) {
    const double b = link.bytes_per_second;
    const uint64_t slice = default_slice_bytes(12, {.sum_bytes = kChunk}, b, link);
    EXPECT_LE(11 * static_cast<double>(std::min(slice, kForwardBytes)) / b, 0.05 * floor_of(link));
    EXPECT_LE(static_cast<double>(kChunk) / static_cast<double>(slice) * link.slice_overhead_seconds,
              0.05 * floor_of(link));
  }
}

TEST(CostModel, SlicesAreLargeWhereThatFillsNoPipelineLater) {
  EXPECT_EQ(default_slice_bytes(12, {.sum_bytes = kChunk}, kGigabit.bytes_per_second, kGigabit), 512u << 10);
  EXPECT_LT(default_slice_bytes(12, {.sum_bytes = kChunk}, kLab.bytes_per_second, kLab), 2 * kForwardBytes)
      << "a slower link is filled by smaller ones";
}

TEST(CostModel, AutoTakesAChainForLargeChunksAndFewHopsForTinyOnes) {
  EXPECT_EQ(choose(Shape::AUTO, 6, kChunk, 0, kLab).choice.shape, Shape::CHAIN);
  EXPECT_EQ(choose(Shape::AUTO, 6, 1000, 0, kLab).choice.shape, Shape::STAR) << "latency decides";
  EXPECT_EQ(choose(Shape::AUTO, 1, kChunk, 0, kLab).choice.shape, Shape::STAR)
      << "one helper: all shapes are equal";
}

TEST(CostModel, AutoIsNeverWorseThanAnyShape) {
  for (uint32_t k = 1; k <= 20; ++k) {
    for (uint64_t bytes = 0; bytes <= kChunk; bytes = bytes * 2 + 1000) {
      const Choice choice = choose(Shape::AUTO, k, bytes, 0, kLab).choice;
      for (Shape shape : {Shape::STAR, Shape::STAGGERED, Shape::PPR, Shape::CHAIN, Shape::WEIGHTED})
        EXPECT_LE(choice.seconds, seconds(shape, k, bytes, 0, kLab) * (1 + 1e-9)) << shape_name(shape);
    }
  }
}

TEST(CostModel, WhatWasAskedForIsKept) {
  const Choice choice = choose(Shape::PPR, 6, 1000, 123, kLab).choice;
  EXPECT_EQ(choice.shape, Shape::PPR);
  EXPECT_EQ(choice.slice_bytes, 123u);
}

TEST(CostModel, SlicesAreWithinTheirLimits) {
  for (uint32_t depth : {1u, 2u, 12u, 28u})
    for (uint64_t bytes = 0; bytes <= uint64_t{1} << 32; bytes = bytes * 2 + 1000)
      for (uint32_t sums : {1u, 4u, 12u}) {
        const uint64_t slice = default_slice_bytes(depth, {.sum_bytes = bytes, .sums = sums}, 1.25e9, kLab);
        EXPECT_GE(slice, kMinSliceBytes);
        EXPECT_LE(slice, kMaxSliceBytes);
        EXPECT_EQ(slice & (slice - 1), 0u);
      }
}

TEST(CostModel, ReadsHaveTheirFirstBytesWithin50MillisecondsAndAreNearlyAsFastAsTheLink) {
  for (uint32_t k : {6u, 8u, 10u, 12u}) {
    const Choice choice = choose(Shape::CHAIN, k, kChunk, 0, kLab, /*read=*/true).choice;
    EXPECT_LE(choice.first_slice_seconds, 0.050) << k;
    EXPECT_LE(choice.seconds, 1.2 * floor_of(kLab)) << k;
  }
}

TEST(CostModel, ATinyReadDoesNotGoThroughAChain) {
  const Choice tiny = choose(Shape::AUTO, 12, 64 << 10, 0, kLab, /*read=*/true).choice;
  EXPECT_NE(tiny.shape, Shape::CHAIN);
  EXPECT_LT(tiny.seconds, seconds(Shape::CHAIN, 12, 64 << 10, 0, kLab));
}

TEST(CostModel, LeavesThatReadFewRowsMakeAStarCheaper) {
  const std::vector<LinkRate> helpers(6, {25e6, 25e6});
  const std::vector<uint32_t> rows_read(6, 2);
  const TreeSet star = TreeSet::one(plan_tree(6, Shape::STAR));
  const TreeLoad all{.sum_bytes = kChunk / 4, .sums = 4};
  const TreeLoad half{.sum_bytes = kChunk / 4, .sums = 4, .rows_read = rows_read};
  const double whole = estimate(star, {Shape::STAR, all, kChunk}, helpers, 25e6, kLab).seconds;
  EXPECT_NEAR(whole / floor_of(kLab), 6, 0.01);
  EXPECT_NEAR(estimate(star, {Shape::STAR, half, kChunk}, helpers, 25e6, kLab).seconds / whole, 0.5, 0.01);
}

TEST(CostModel, TheSlowestLinkDecides) {
  std::vector<LinkRate> helpers(6, {100e6, 100e6});
  helpers[3] = {25e6, 25e6};
  const TreeSet chain = TreeSet::one(plan_tree(6, Shape::CHAIN));
  const double slow =
      estimate(chain, {Shape::CHAIN, {.sum_bytes = kChunk}, 64 << 10}, helpers, 100e6, kLab).seconds;
  EXPECT_GE(slow, kChunk / 25e6);
  EXPECT_LE(slow, 1.1 * kChunk / 25e6);
}

}  // namespace
}  // namespace kintsugi::repair_manager
