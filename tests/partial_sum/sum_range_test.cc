// Ranges, slices and the order of units.
#include "partial_sum/sum_range.h"

#include <gtest/gtest.h>

#include "erasure/layout.h"
#include "partial_sum/slice_window.h"

namespace kintsugi::partial_sum {
namespace {

proto::PartialSumRequest request_of(uint64_t length, uint64_t slice) {
  proto::PartialSumRequest request;
  request.set_length(length);
  request.set_slice_bytes(slice);
  return request;
}

TEST(SumRange, SlicesOfAMaskAreThoseWithTheirBitSet) {
  for (size_t slices : {1u, 5u, 63u, 64u, 65u, 200u}) {
    for (uint32_t period : {1u, 3u, 64u}) {
      for (uint64_t bits : {uint64_t{1}, uint64_t{5}, ~uint64_t{0}, uint64_t{1} << 63}) {
        proto::PartialSumRequest request = request_of(slices * kBlockBytes, kBlockBytes);
        request.set_slice_period(period);
        request.set_slice_mask(period == 64 ? bits : bits & ((uint64_t{1} << period) - 1));
        auto range = SumRange::make(request, 1);
        if (request.slice_mask() == 0) {
          EXPECT_FALSE(range);
          continue;
        }
        ASSERT_TRUE(range) << range.error();
        std::vector<size_t> carried, listed;
        for (size_t slice = 0; slice < slices; ++slice) {
          if (range->mask.carries(slice)) carried.push_back(slice);
        }
        for (size_t ordinal = 0; ordinal < range->carried_slices(); ++ordinal)
          listed.push_back(range->carried_slice(ordinal));
        EXPECT_EQ(listed, carried);
      }
    }
  }
}

TEST(SumRange, SlicesOfSubChunksAreWholeSubCells) {
  proto::PartialSumRequest request = request_of(10 << 20, 100'000);
  request.set_rows(4);
  request.set_cell_bytes(1 << 20);
  EXPECT_EQ(SumRange::make(request, 4)->slice_bytes, 256u << 10);
  request.set_offset(128 << 10);
  EXPECT_EQ(SumRange::make(request, 4).error().code(), Code::kInvalidArgument);
}

TEST(SumRange, TheLongestSubChunkHoldsAllOfAChunk) {
  EXPECT_EQ(erasure::sub_chunk_bytes(12345, 1, 0), 12345u);
  EXPECT_EQ(erasure::sub_chunk_bytes(0, 4, 1 << 20), 0u);
  EXPECT_EQ(erasure::sub_chunk_bytes(3 << 20, 4, 1 << 20), 3u << 18);
  EXPECT_EQ(erasure::sub_chunk_bytes((3 << 20) + 5, 4, 1 << 20), (3u << 18) + 5);
  EXPECT_EQ(erasure::sub_chunk_bytes((4 << 20) - 1, 4, 1 << 20), 4u << 18);
}

TEST(WindowSize, FitsIntoWhatANodeMayHold) {
  for (uint64_t slice : {64u << 10, 128u << 10, 192u << 10, 512u << 10, 4u << 20}) {
    for (uint32_t sums : {1u, 2u, 4u, 12u}) {
      for (size_t children : {1u, 2u, 5u, 12u}) {
        for (bool plain : {false, true}) {
          auto range = SumRange::make(request_of(64 << 20, slice), sums);
          ASSERT_TRUE(range);
          WindowSize::Node node{children, true};
          node.plain_child = plain;
          const WindowSize size = WindowSize::choose(*range, node);
          const bool pieces = children > 1 || !plain;
          const uint64_t bytes = size.units * size.unit_bytes * sums + size.own_bytes +
                                 (pieces ? children * size.piece_bytes : 0);
          EXPECT_LE(bytes, (children + 2) * slice * sums)
              << slice << ' ' << sums << ' ' << children << ' ' << plain;
          EXPECT_GE(size.units * size.unit_bytes, slice) << "a whole slice is open";
        }
      }
    }
  }
}

TEST(WindowSize, WithoutSlicesANodeWaitsForItsChildrenAndALeafSendsAsItReads) {
  auto range = SumRange::make(request_of(64 << 20, 64 << 20), 1);
  ASSERT_TRUE(range);
  EXPECT_FALSE(WindowSize::choose(*range, {.children = 0, .own = true}).whole);
  EXPECT_TRUE(WindowSize::choose(*range, {.children = 1, .own = true}).whole);
}

}  // namespace
}  // namespace kintsugi::partial_sum
