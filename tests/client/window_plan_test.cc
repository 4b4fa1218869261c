#include "client/lib/read/window_plan.h"

#include <random>

#include <gtest/gtest.h>

#include "common/base/crc32c.h"
#include "erasure/layout.h"

namespace kintsugi::client {
namespace {

std::vector<Window> all(WindowPlan plan) {
  std::vector<Window> windows;
  while (!plan.done())
    windows.push_back(plan.next());
  return windows;
}

TEST(WindowPlan, CoversARangeExactlyOnceInOrderWithinItsLimits) {
  const uint64_t seed = 42;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const erasure::Policy policy{static_cast<uint32_t>(1 + random() % 8), 2,
                                 static_cast<uint32_t>((1 + random() % 40) * 65536)};
    const uint64_t length = 1 + random() % (policy.k * policy.cell_bytes * 5ull);
    const uint64_t offset = random() % length, bytes = 1 + random() % (length - offset);
    const uint64_t limit = (1 + random() % 32) * kBlockBytes;
    SCOPED_TRACE(fmt::format("seed {} case {}", seed, i));
    uint64_t at = offset;
    for (const Window& window : all(WindowPlan(policy, length, offset, bytes, limit))) {
      ASSERT_EQ(window.stripe_offset, at);
      ASSERT_GT(window.bytes, 0u);
      at += window.bytes;
      ASSERT_EQ(window.chunk_begin % kBlockBytes, 0u);
      ASSERT_LE(window.chunk_end - window.chunk_begin, limit);
      for (const erasure::Piece& piece : erasure::pieces(policy, window.stripe_offset, window.bytes)) {
        ASSERT_NE(std::find(window.wanted.begin(), window.wanted.end(), piece.chunk), window.wanted.end());
        ASSERT_GE(piece.chunk_offset, window.chunk_begin);
        ASSERT_LE(piece.chunk_offset + piece.bytes, window.chunk_end);
      }
    }
    ASSERT_EQ(at, offset + bytes);
  }
}

TEST(WindowPlan, ReadsWholeRowsTogetherAndRaggedEndsAlone) {
  const erasure::Policy policy{2, 1, 65536};
  const auto windows = all(WindowPlan(policy, 10 * 131072, 65536, 3 * 131072, 131072));
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(windows[0].wanted, (std::vector<uint32_t>{1}));
  EXPECT_EQ(windows[1].wanted, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(windows[1].bytes, 2u * 131072);
  EXPECT_EQ(windows[2].wanted, (std::vector<uint32_t>{0}));
}

}  // namespace
}  // namespace kintsugi::client
