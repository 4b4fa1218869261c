#include "repair_manager/compaction/compaction_window.h"

#include <gtest/gtest.h>

namespace kintsugi::repair_manager {
namespace {

using client::LocatedExtent;
using client::LocatedStripe;

constexpr uint64_t kMiB = 1 << 20;

/// A stripe of which so many bytes are named by files.
std::shared_ptr<const LocatedStripe> stripe(uint64_t id, uint64_t length, uint64_t live) {
  auto made = std::make_shared<LocatedStripe>();
  made->stripe.set_stripe_id(id);
  made->stripe.set_length(length);
  made->stripe.set_live_bytes(live);
  made->stripe.add_chunks();
  return made;
}

std::shared_ptr<const LocatedStripe> inline_stripe(uint64_t id, uint64_t length) {
  auto made = std::make_shared<LocatedStripe>();
  made->stripe.set_stripe_id(id);
  made->stripe.set_length(length);
  made->stripe.set_live_bytes(length);
  return made;
}

/// Pieces of that size, one behind the other, each of a stripe of its own.
CompactionWindow pieces(size_t count, uint64_t bytes) {
  CompactionWindow window;
  for (uint64_t i = 0; i < count; ++i)
    window.extents.push_back({i * bytes, bytes, stripe(i + 1, bytes, bytes), 0});
  return window;
}

size_t badly(const CompactionWindow& window) {
  return badly_laid(window).extents.size();
}

TEST(CompactionWindow, OfManySmallPiecesIsWrittenAnewAsAWhole) {
  EXPECT_EQ(badly(pieces(16, 32'767)), 16u);
  EXPECT_EQ(badly(pieces(15, 4096)), 0u) << "they are few";
  EXPECT_EQ(badly(pieces(16, 32'768)), 0u) << "they are not small";
}

TEST(CompactionWindow, CountsAsOnePieceWhatGoesOnInItsStripe) {
  const auto one = stripe(1, kMiB, kMiB);
  CompactionWindow window;
  for (uint64_t i = 0; i < 64; ++i)
    window.extents.push_back({i * 4096, 4096, one, i * 4096});
  EXPECT_EQ(badly(window), 0u);
  for (LocatedExtent& extent : window.extents)
    extent.stripe_offset = kMiB - 4096 - extent.stripe_offset;
  EXPECT_EQ(badly(window), 64u) << "the same bytes in another order";
}

TEST(CompactionWindow, OfStripesThatAreMostlyWasteIsWrittenAnew) {
  const auto of = [](uint64_t live) { return CompactionWindow{{{0, live, stripe(1, 4 * kMiB, live), 0}}}; };
  EXPECT_EQ(badly(of(3 * kMiB)), 0u);
  EXPECT_EQ(badly(of(3 * kMiB - 1)), 1u);
  EXPECT_EQ(badly({{{0, 1024, stripe(1, 4 * kMiB, 4 * kMiB), 0}}}), 0u) << "other files have the rest";
}

TEST(CompactionWindow, ThatLiesWellLosesOnlyWhatTheMetaserverKeeps) {
  CompactionWindow window = pieces(3, kMiB);
  window.extents[1].stripe = inline_stripe(7, kMiB);
  const CompactionWindow moved = badly_laid(window);
  ASSERT_EQ(moved.extents.size(), 1u);
  EXPECT_EQ(moved.begin(), kMiB);
  EXPECT_EQ(moved.bytes(), kMiB);
}

TEST(CompactionWindow, HasARunForWhatHolesSeparate) {
  CompactionWindow window = pieces(4, 100);
  EXPECT_EQ(window.runs(), (std::vector<client::ByteRange>{{0, 400}}));
  window.extents.erase(window.extents.begin() + 1);
  EXPECT_EQ(window.runs(), (std::vector<client::ByteRange>{{0, 100}, {200, 400}}));
  EXPECT_EQ(window.bytes(), 300u);
}

}  // namespace
}  // namespace kintsugi::repair_manager
