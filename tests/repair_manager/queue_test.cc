#include "repair_manager/queue.h"

#include <gtest/gtest.h>

namespace kintsugi::repair_manager {
namespace {

constexpr TimePoint kStart{1h};
constexpr ServerId kServer{7};

QueueEntry lost(uint64_t stripe, uint32_t index, int32_t spare, Duration age = 0s) {
  return {.chunk = {StripeId{stripe}, index}, .spare = spare, .lost_at = kStart - age, .due = kStart};
}

QueueEntry delayed(uint64_t stripe, uint32_t index, int32_t spare, Duration delay) {
  QueueEntry entry = lost(stripe, index, spare);
  entry.due = kStart + delay;
  entry.dead_server = kServer;
  return entry;
}

std::vector<ChunkId> ready(const RepairQueue& queue) {
  std::vector<ChunkId> chunks;
  queue.for_each_ready([&](const QueueEntry& entry) {
    chunks.push_back(entry.chunk);
    return true;
  });
  return chunks;
}

ChunkId chunk(uint64_t stripe, uint32_t index) {
  return {StripeId{stripe}, index};
}

TEST(RepairQueue, FewestSpareFirstThenOldest) {
  RepairQueue queue;
  queue.add(lost(1, 0, 2, 1s), kStart);
  queue.add(lost(2, 0, 0, 0s), kStart);
  queue.add(lost(3, 0, 2, 9s), kStart);
  queue.add(lost(4, 0, 0, 5s), kStart);
  EXPECT_EQ(ready(queue), (std::vector<ChunkId>{chunk(4, 0), chunk(2, 0), chunk(3, 0), chunk(1, 0)}));
}

TEST(RepairQueue, AChunkIsInItOnce) {
  RepairQueue queue;
  queue.add(lost(1, 0, 2), kStart);
  queue.add(lost(1, 0, 2), kStart);
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_TRUE(queue.take(chunk(1, 0)).has_value());
  EXPECT_FALSE(queue.take(chunk(1, 0)).has_value());
  EXPECT_EQ(queue.size(), 0u);
}

TEST(RepairQueue, DelayedChunksBecomeReadyWhenDue) {
  RepairQueue queue;
  queue.add(delayed(1, 0, 2, 10s), kStart);
  queue.add(delayed(2, 0, 2, 20s), kStart);
  EXPECT_EQ(queue.advance(kStart), kStart + 10s);
  EXPECT_EQ(queue.ready(), 0u);
  EXPECT_EQ(queue.advance(kStart + 10s), kStart + 20s);
  EXPECT_EQ(ready(queue), std::vector<ChunkId>{chunk(1, 0)});
  EXPECT_EQ(queue.advance(kStart + 20s), TimePoint::max());
  EXPECT_EQ(queue.ready(), 2u);
}

TEST(RepairQueue, AnotherLossInTheStripeEndsTheDelayOfAllItsChunks) {
  RepairQueue queue;
  queue.add(delayed(1, 0, 2, 10min), kStart);
  queue.add(delayed(2, 0, 2, 10min), kStart);
  queue.add(delayed(1, 4, 1, 10min), kStart);
  EXPECT_EQ(ready(queue), (std::vector<ChunkId>{chunk(1, 0), chunk(1, 4)}));
  EXPECT_EQ(queue.delayed(), 1u);
}

TEST(RepairQueue, AFailedAttemptBacksOffHoweverUrgent) {
  RepairQueue queue;
  QueueEntry failed = delayed(1, 0, 0, 5s);
  failed.attempt = 1;
  queue.add(failed, kStart);
  EXPECT_EQ(queue.ready(), 0u);
  queue.advance(kStart + 5s);
  EXPECT_EQ(queue.ready(), 1u);
}

TEST(RepairQueue, AServersReturnCancelsWhatItsDeathQueuedButNotWhatIsBad) {
  RepairQueue queue;
  queue.add(delayed(1, 0, 2, 10min), kStart);
  queue.add(delayed(2, 0, 2, 10min), kStart);
  queue.add(lost(2, 0, 2), kStart);  // the chunk itself was found bad meanwhile
  queue.add(lost(3, 0, 2), kStart);
  EXPECT_EQ(queue.server_returned(kServer), 1u);
  EXPECT_EQ(queue.server_returned(kServer), 0u);
  EXPECT_EQ(ready(queue), (std::vector<ChunkId>{chunk(2, 0), chunk(3, 0)}));
}

TEST(RepairQueue, AsideWaitsUntilReleased) {
  RepairQueue queue;
  queue.add(lost(1, 0, -1), kStart);
  queue.add(lost(2, 0, 1), kStart);
  queue.put_aside(chunk(1, 0), RepairQueue::Aside::kUnrepairable);
  queue.put_aside(chunk(2, 0), RepairQueue::Aside::kNoDestination);
  EXPECT_EQ(queue.unrepairable(), 1u);
  EXPECT_EQ(queue.aside(), 2u);
  EXPECT_EQ(queue.ready(), 0u);
  queue.release_aside();
  EXPECT_EQ(queue.ready(), 2u);
  EXPECT_EQ(queue.unrepairable(), 0u);
}

TEST(RepairQueue, ADeletedStripeLeavesFromEveryPlace) {
  RepairQueue queue;
  queue.add(lost(1, 0, 2), kStart);
  queue.add(delayed(1, 1, 2, 10s), kStart);
  queue.add(lost(1, 2, 2), kStart);
  queue.put_aside(chunk(1, 2), RepairQueue::Aside::kUnrepairable);
  queue.add(lost(2, 0, 2), kStart);
  queue.stripe_deleted(StripeId{1});
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.unrepairable(), 0u);
  EXPECT_EQ(queue.server_returned(kServer), 0u);
  EXPECT_EQ(ready(queue), std::vector<ChunkId>{chunk(2, 0)});
}

}  // namespace
}  // namespace kintsugi::repair_manager
