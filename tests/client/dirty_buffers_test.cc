// Buffers of unwritten bytes in memory that outlives the process which fills them.
#include "client/lib/dirty/dirty_buffers.h"

#include <algorithm>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "tests/client/fake_cluster.h"

namespace kintsugi::client {
namespace {

using Bytes = std::vector<std::byte>;

TEST(DirtyBuffers, AreFoundAgainByAnotherProcessInTheirOrder) {
  ProcessDirtyMemory memory(DirtyBuffers::region_bytes(1 << 20));
  const Bytes bytes = random_bytes(DirtyBuffers::kBufferBytes, 1);
  {
    DirtyBuffers buffers(memory);
    std::vector<DirtyPiece> pieces;
    for (uint64_t i = 0; i < 5; ++i) {
      pieces.push_back(buffers.take(7, i * 1000));
      pieces.back().put(i * 1000, std::span(bytes).first(500 + i), 9, i == 3);
    }
    pieces[1] = {};
    pieces[2].cut(2010);
    buffers.hand_over();
  }
  DirtyBuffers buffers(memory);
  const std::vector<DirtyPiece> found = buffers.recover();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].offset(), 0u);
  EXPECT_EQ(found[1].offset(), 2000u);
  EXPECT_EQ(found[1].length(), 10u);
  EXPECT_EQ(found[2].inode(), 7u);
  EXPECT_TRUE(found[2].kill_privileges());
  EXPECT_FALSE(found[3].kill_privileges());
  EXPECT_TRUE(std::ranges::equal(found[3].bytes(), std::span(bytes).first(504)));
  EXPECT_EQ(buffers.free(), buffers.total() - 4);
}

TEST(DirtyBuffers, AHeaderThatWasTornByAKillLeavesTheOneBefore) {
  ProcessDirtyMemory memory(DirtyBuffers::region_bytes(1 << 20));
  const Bytes bytes = random_bytes(1000, 1);
  Bytes first, second;
  {
    DirtyBuffers buffers(memory);
    DirtyPiece piece = buffers.take(7, 0);
    piece.put(0, std::span(bytes).first(100), 1, false);
    first.assign(memory.region().begin(), memory.region().begin() + 4096);
    piece.put(100, std::span(bytes).first(200), 2, false);
    second.assign(memory.region().begin(), memory.region().begin() + 4096);
    buffers.hand_over();
  }
  // Any part of the second header may be there.
  for (size_t kept = 0; kept < 4096; kept += 4) {
    std::ranges::copy(first, memory.region().begin());
    std::copy_n(second.begin(), kept, memory.region().begin());
    DirtyBuffers buffers(memory);
    const auto found = buffers.recover();
    ASSERT_EQ(found.size(), 1u) << kept;
    EXPECT_TRUE(found[0].length() == 100 || found[0].length() == 300);
    buffers.hand_over();
  }
}

}  // namespace
}  // namespace kintsugi::client
