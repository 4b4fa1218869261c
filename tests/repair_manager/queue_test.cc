#include "repair_manager/joint/queue.h"

#include <gtest/gtest.h>

#include "repair_manager/manager/refused_chunks.h"

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

ChunkId chunk_of(uint64_t stripe, uint32_t index) {
  return {StripeId{stripe}, index};
}

TEST(RepairQueue, FewestSpareFirstThenOldest) {
  RepairQueue queue;
  queue.add(lost(1, 0, 2, 1s), kStart);
  queue.add(lost(2, 0, 0, 0s), kStart);
  queue.add(lost(3, 0, 2, 9s), kStart);
  queue.add(lost(4, 0, 0, 5s), kStart);
  EXPECT_EQ(ready(queue),
            (std::vector<ChunkId>{chunk_of(4, 0), chunk_of(2, 0), chunk_of(3, 0), chunk_of(1, 0)}));
}

TEST(RepairQueue, AChunkIsInItOnce) {
  RepairQueue queue;
  queue.add(lost(1, 0, 2), kStart);
  queue.add(lost(1, 0, 2), kStart);
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_TRUE(queue.take(chunk_of(1, 0)).has_value());
  EXPECT_FALSE(queue.take(chunk_of(1, 0)).has_value());
  EXPECT_EQ(queue.size(), 0u);
}

TEST(RepairQueue, DelayedChunksBecomeReadyWhenDue) {
  RepairQueue queue;
  queue.add(delayed(1, 0, 2, 10s), kStart);
  queue.add(delayed(2, 0, 2, 20s), kStart);
  EXPECT_EQ(queue.advance(kStart), kStart + 10s);
  EXPECT_EQ(queue.ready(), 0u);
  EXPECT_EQ(queue.advance(kStart + 10s), kStart + 20s);
  EXPECT_EQ(ready(queue), std::vector<ChunkId>{chunk_of(1, 0)});
  EXPECT_EQ(queue.advance(kStart + 20s), TimePoint::max());
  EXPECT_EQ(queue.ready(), 2u);
}

TEST(RepairQueue, AnotherLossInTheStripeEndsTheDelayOfAllItsChunks) {
  RepairQueue queue;
  queue.add(delayed(1, 0, 2, 10min), kStart);
  queue.add(delayed(2, 0, 2, 10min), kStart);
  queue.add(delayed(1, 4, 1, 10min), kStart);
  EXPECT_EQ(ready(queue), (std::vector<ChunkId>{chunk_of(1, 0), chunk_of(1, 4)}));
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
  EXPECT_EQ(ready(queue), (std::vector<ChunkId>{chunk_of(2, 0), chunk_of(3, 0)}));
}

TEST(RepairQueue, BlockedOnesWaitUntilTheyAreUnblockedOrRetried) {
  RepairQueue queue;
  queue.add(lost(1, 0, -1), kStart);
  queue.add(lost(2, 0, 1), kStart);
  queue.block(chunk_of(1, 0), RepairQueue::Lacking::kHelpers, kStart);
  queue.block(chunk_of(2, 0), RepairQueue::Lacking::kDestination, kStart);
  EXPECT_EQ(queue.unrepairable(), 1u);
  EXPECT_EQ(queue.blocked(), 2u);
  EXPECT_EQ(queue.ready(), 0u);
  queue.unblock_all();
  EXPECT_EQ(queue.ready(), 2u);
  EXPECT_EQ(queue.unrepairable(), 0u);
  queue.block(chunk_of(1, 0), RepairQueue::Lacking::kHelpers, kStart);
  EXPECT_EQ(queue.advance(kStart), kStart + RepairQueue::kBlockedRetry);
  EXPECT_EQ(queue.ready(), 1u);
  EXPECT_EQ(queue.advance(kStart + RepairQueue::kBlockedRetry), TimePoint::max());
  EXPECT_EQ(queue.ready(), 2u);
}

TEST(RepairQueue, ADeletedStripeLeavesFromEveryPlace) {
  RepairQueue queue;
  queue.add(lost(1, 0, 2), kStart);
  queue.add(delayed(1, 1, 2, 10s), kStart);
  queue.add(lost(1, 2, 2), kStart);
  queue.block(chunk_of(1, 2), RepairQueue::Lacking::kHelpers, kStart);
  queue.add(lost(2, 0, 2), kStart);
  queue.stripe_deleted(StripeId{1});
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.unrepairable(), 0u);
  EXPECT_EQ(queue.server_returned(kServer), 0u);
  EXPECT_EQ(ready(queue), std::vector<ChunkId>{chunk_of(2, 0)});
}

QueueEntry move_of(uint64_t stripe, uint32_t index, ServerId from) {
  QueueEntry entry = lost(stripe, index, 3);
  entry.kind = WorkKind::kMove;
  entry.moving_from = from;
  return entry;
}

TEST(RepairQueue, OfEqualRedundancyTheHotGoFirstWhateverTheirAge) {
  RepairQueue queue;
  QueueEntry hot = lost(1, 0, 2), warm = lost(2, 0, 2, 5s), endangered = lost(4, 0, 1);
  hot.heat = 70;
  warm.heat = 40;
  queue.add(lost(3, 0, 2, 9s), kStart);
  queue.add(warm, kStart);
  queue.add(hot, kStart);
  queue.add(endangered, kStart);
  EXPECT_EQ(ready(queue),
            (std::vector<ChunkId>{chunk_of(4, 0), chunk_of(1, 0), chunk_of(2, 0), chunk_of(3, 0)}));
}

TEST(RepairQueue, ReadsMakeALostChunkHotStepByStep) {
  RepairQueue queue;
  queue.add(lost(1, 0, 2, 9s), kStart);
  queue.add(lost(2, 0, 2), kStart);
  queue.heat_up(chunk_of(2, 0));
  EXPECT_EQ(ready(queue).front(), chunk_of(2, 0));
  queue.heat_up(chunk_of(1, 0));
  EXPECT_EQ(ready(queue).front(), chunk_of(1, 0)) << "as hot, and older";
  queue.heat_up(chunk_of(7, 0));  // not in it
  EXPECT_EQ(heat_class(0.9f), 0u);
  EXPECT_EQ(heat_class(1), 1u);
  EXPECT_EQ(heat_class(3.9f), 2u);
  EXPECT_EQ(heat_class(4), 3u);
}

TEST(RepairQueue, MovesComeLastAndEndWhenTheyAreCancelled) {
  RepairQueue queue;
  queue.add(move_of(1, 0, ServerId{3}), kStart);
  queue.add(move_of(2, 0, ServerId{4}), kStart);
  queue.add(lost(3, 0, 9), kStart);
  EXPECT_EQ(ready(queue), (std::vector<ChunkId>{chunk_of(3, 0), chunk_of(1, 0), chunk_of(2, 0)}));
  EXPECT_EQ(queue.moves(), 2u);
  EXPECT_EQ(queue.server_returned(ServerId{3}), 0u);
  EXPECT_EQ(queue.moves_cancelled(ServerId{3}), 1u);
  EXPECT_EQ(ready(queue), (std::vector<ChunkId>{chunk_of(3, 0), chunk_of(2, 0)}));
}

TEST(RepairQueue, ALostChunkIsRepairedAndNotMoved) {
  RepairQueue queue;
  queue.add(move_of(1, 0, ServerId{3}), kStart);
  queue.add(lost(1, 0, 0), kStart);
  queue.add(move_of(1, 0, ServerId{3}), kStart);
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.moves(), 0u);
  EXPECT_EQ(queue.take(chunk_of(1, 0))->kind, WorkKind::kRepair);
  EXPECT_EQ(queue.moves_cancelled(ServerId{3}), 0u);
}

// ---- millions: a call moves a bounded number, and the rest follows from call to call

constexpr uint64_t kMany = 3 * RepairQueue::kMovedAtOnce + 1;

TEST(RepairQueue, ManyThatAreDueAtOnceBecomeReadyALittleAtATime) {
  RepairQueue queue;
  for (uint64_t i = 1; i <= kMany; ++i)
    queue.add(delayed(i, 0, 2, 10s), kStart);
  const TimePoint due = kStart + 10s;
  for (size_t calls = 1; calls <= 3; ++calls) {
    EXPECT_LE(queue.advance(due), due) << "there is more to do";
    EXPECT_EQ(queue.ready(), calls * RepairQueue::kMovedAtOnce);
  }
  EXPECT_EQ(queue.advance(due), TimePoint::max());
  EXPECT_EQ(queue.ready(), kMany);
}

TEST(RepairQueue, ManyThatWereBlockedBecomeReadyALittleAtATimeAndOnceOnly) {
  RepairQueue queue;
  for (uint64_t i = 1; i <= kMany; ++i)
    queue.add(lost(i, 0, 2), kStart);
  for (uint64_t i = 1; i <= kMany; ++i)
    queue.block(chunk_of(i, 0), RepairQueue::Lacking::kHelpers, kStart);
  queue.unblock_all();
  EXPECT_EQ(queue.ready(), RepairQueue::kMovedAtOnce);
  EXPECT_EQ(queue.blocked(), kMany - RepairQueue::kMovedAtOnce);
  queue.block(chunk_of(1, 0), RepairQueue::Lacking::kHelpers, kStart);
  for (int calls = 0; calls < 10; ++calls)
    queue.advance(kStart);
  EXPECT_EQ(queue.ready(), kMany - 1) << "what is blocked anew waits for the next time";
  EXPECT_EQ(queue.unrepairable(), 1u);
  EXPECT_TRUE(queue.take(chunk_of(kMany, 0)));
}

TEST(RepairQueue, AServerReturnsWhileManyAreWoken) {
  RepairQueue queue;
  for (uint64_t i = 1; i <= kMany; ++i)
    queue.add(lost(i, 0, 2), kStart);
  for (uint64_t i = 1; i <= kMany; ++i)
    queue.block(chunk_of(i, 0), RepairQueue::Lacking::kHelpers, kStart);
  queue.unblock_all();
  queue.block(chunk_of(1, 0), RepairQueue::Lacking::kHelpers, kStart);
  queue.unblock_all();
  for (int calls = 0; calls < 10; ++calls)
    queue.advance(kStart);
  EXPECT_EQ(queue.ready(), kMany) << "that one, too";
}

TEST(RepairQueue, ManyOfAServerThatReturnedAreForgottenALittleAtATime) {
  RepairQueue queue;
  for (uint64_t i = 1; i <= kMany; ++i)
    queue.add(delayed(i, 0, 2, 10s), kStart);
  EXPECT_EQ(queue.server_returned(kServer), kMany);
  EXPECT_EQ(queue.size(), kMany - RepairQueue::kMovedAtOnce);
  // It dies again at once: what is lost anew is not forgotten.
  queue.add(delayed(kMany, 0, 2, 20s), kStart);
  queue.add(delayed(1, 0, 2, 20s), kStart);
  for (int calls = 0; calls < 5; ++calls)
    queue.advance(kStart);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.advance(kStart + 10s), kStart + 20s) << "their delay began anew";
  EXPECT_EQ(queue.server_returned(kServer), 2u);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(RepairQueue, ManyThatAreOtherManagersAreForgottenALittleAtATimeAndNoneBeginsMeanwhile) {
  RepairQueue queue;
  for (uint64_t i = 1; i <= kMany; ++i)
    queue.add(i % 3 == 0 ? delayed(i, 0, 2, 10s) : lost(i, 0, 2), kStart);
  size_t asked = 0;
  const auto odd = [&](StripeId stripe) {
    ++asked;
    return stripe.value % 2 == 1;
  };
  queue.keep_only(odd);
  EXPECT_EQ(asked, RepairQueue::kMovedAtOnce);
  EXPECT_EQ(queue.size(), kMany - RepairQueue::kMovedAtOnce / 2);
  EXPECT_TRUE(ready(queue).empty()) << "it may be another manager's";
  EXPECT_EQ(queue.ready(), 0u);
  // Lost anew: of a stripe that is this manager's again, or whoever tells knows better.
  queue.add(lost(kMany - 1, 0, 2), kStart);
  queue.add(lost(kMany + 1, 0, 2), kStart);
  queue.add(lost(2, 0, 2), kStart);
  for (int calls = 0; calls < 2; ++calls) {
    asked = 0;
    EXPECT_LE(queue.advance(kStart), kStart) << "there is more to do";
    EXPECT_LE(asked, RepairQueue::kMovedAtOnce);
  }
  queue.advance(kStart);
  EXPECT_EQ(queue.size(), (kMany + 1) / 2 + 3);
  EXPECT_EQ(ready(queue).size(), queue.ready());
  EXPECT_TRUE(queue.contains(chunk_of(1, 0)));
  EXPECT_TRUE(queue.contains(chunk_of(2, 0)));
  EXPECT_TRUE(queue.contains(chunk_of(kMany - 1, 0)));
  EXPECT_TRUE(queue.contains(chunk_of(kMany + 1, 0)));
  EXPECT_FALSE(queue.contains(chunk_of(4, 0)));
  EXPECT_FALSE(queue.contains(chunk_of(kMany - 3, 0)));
}

TEST(RepairQueue, WhatIsOneManagersIsDecidedByTheLastWord) {
  RepairQueue queue;
  for (uint64_t i = 1; i <= kMany; ++i)
    queue.add(lost(i, 0, 2), kStart);
  queue.keep_only([](StripeId) { return false; });
  queue.keep_only([](StripeId stripe) { return stripe.value > kMany - 10; });
  for (int calls = 0; calls < 4; ++calls)
    queue.advance(kStart);
  EXPECT_EQ(ready(queue).size(), 10u);
}

TEST(RefusedChunks, AreToldInOneLineAMinuteHoweverManyTheyAre) {
  RefusedChunks refused;
  size_t lines = 0;
  uint64_t told = 0;
  for (int i = 0; i < 90'000; ++i) {  // one each millisecond
    if (const uint64_t count = refused.count(kStart + i * 1ms)) {
      ++lines;
      told += count;
    }
  }
  EXPECT_EQ(lines, 2u);
  EXPECT_EQ(told, 60'001u) << "the others are told in the next line";
}

TEST(RepairQueue, WhatServersInMaintenanceWillBringBackIsHurriedOnlyWithoutASpareChunk) {
  RepairQueue queue;
  const auto awaited = [](uint32_t index, int32_t spare) {
    QueueEntry entry = delayed(1, index, spare, 10s);
    entry.in_maintenance = true;
    return entry;
  };
  queue.add(awaited(0, 2), kStart);
  queue.add(awaited(1, 1), kStart);
  EXPECT_TRUE(ready(queue).empty()) << "two servers are in maintenance";
  queue.add(awaited(2, 0), kStart);
  EXPECT_EQ(ready(queue).size(), 3u);
}

TEST(RepairQueue, AFurtherLossHurriesWhatWaitedForAServerInMaintenance) {
  RepairQueue queue;
  QueueEntry entry = delayed(1, 0, 2, 10s);
  entry.in_maintenance = true;
  queue.add(entry, kStart);
  queue.add(lost(1, 3, 1), kStart);
  EXPECT_EQ(ready(queue).size(), 2u);
}

}  // namespace
}  // namespace kintsugi::repair_manager
