#include "repair_manager/cost_model.h"

#include <gtest/gtest.h>

namespace kintsugi::repair_manager {
namespace {

constexpr uint64_t kChunk = 64 << 20;
constexpr LinkModel kLab{.bytes_per_second = 25e6};  // 200 Mbit/s
constexpr double kFloor = kChunk / 25e6;             // C/B

TEST(CostModel, UnslicedShapesTakeTheTimestepsOfTheTheorem) {
  for (uint32_t k : {6u, 8u, 10u, 12u}) {
    EXPECT_NEAR(estimate_seconds(Shape::kStar, k, kChunk, kChunk, kLab) / kFloor, k, 0.01);
    EXPECT_NEAR(estimate_seconds(Shape::kPpr, k, kChunk, kChunk, kLab) / kFloor, ppr_timesteps(k), 0.01);
    EXPECT_NEAR(estimate_seconds(Shape::kChain, k, kChunk, kChunk, kLab) / kFloor, k, 0.01)
        << "an unsliced chain is no pipeline";
  }
  EXPECT_EQ(ppr_timesteps(6), 3u);
  EXPECT_EQ(ppr_timesteps(7), 3u);
  EXPECT_EQ(ppr_timesteps(8), 4u);
}

TEST(CostModel, SlicedChainComesWithinAFifthOfTheFloor) {
  for (uint32_t k : {3u, 6u, 8u, 10u, 12u, 20u})
    EXPECT_LE(estimate_seconds(Shape::kChain, k, kChunk, default_slice_bytes(k, kChunk), kLab), 1.2 * kFloor)
        << k;
}

TEST(CostModel, AutoTakesAChainForLargeChunksAndFewHopsForTinyOnes) {
  const Choice large = choose_shape(Shape::kAuto, 6, kChunk, 0, kLab);
  EXPECT_EQ(large.shape, Shape::kChain);
  EXPECT_EQ(large.slice_bytes, kDefaultSliceBytes);
  EXPECT_EQ(choose_shape(Shape::kAuto, 6, 1000, 0, kLab).shape, Shape::kStar) << "latency decides";
  EXPECT_EQ(choose_shape(Shape::kAuto, 1, kChunk, 0, kLab).shape, Shape::kStar)
      << "one helper: all shapes are equal";
}

TEST(CostModel, AutoIsNeverWorseThanAnyShape) {
  for (uint32_t k = 1; k <= 20; ++k) {
    for (uint64_t bytes = 0; bytes <= kChunk; bytes = bytes * 2 + 1000) {
      const Choice choice = choose_shape(Shape::kAuto, k, bytes, 0, kLab);
      for (Shape shape : {Shape::kStar, Shape::kPpr, Shape::kChain})
        EXPECT_LE(choice.seconds, estimate_seconds(shape, k, bytes, choice.slice_bytes, kLab));
    }
  }
}

TEST(CostModel, WhatWasAskedForIsKept) {
  const Choice choice = choose_shape(Shape::kPpr, 6, 1000, 123, kLab);
  EXPECT_EQ(choice.shape, Shape::kPpr);
  EXPECT_EQ(choice.slice_bytes, 123u);
}

TEST(CostModel, SmallChunksGetSmallSlicesButNotBelowTheMinimum) {
  EXPECT_EQ(default_slice_bytes(6, 16 << 20), uint64_t{256 << 10});
  EXPECT_EQ(default_slice_bytes(6, 1 << 20), kMinSliceBytes);
  EXPECT_EQ(default_slice_bytes(6, 0), kMinSliceBytes);
  EXPECT_EQ(default_slice_bytes(1, 1 << 20), kDefaultSliceBytes);
}

}  // namespace
}  // namespace kintsugi::repair_manager
