// What cleaning a segment costs, and what it may forget.
#include "tests/chunkserver/store_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

/// A segment that was loaded, with chunks of one block and tombstones; no file is behind it.
std::shared_ptr<Segment> loaded(uint64_t number, uint64_t first_stripe, size_t chunks,
                                size_t tombstones = 0) {
  auto segment = std::make_shared<Segment>();
  segment->number = number;
  segment->last_group = number;
  for (uint64_t i = 0; i < chunks; ++i) {
    segment->records.push_back({{chunk_id(first_stripe + i), 4096, 0}, segment->end, first_stripe + i});
    segment->end += segment->records.back().record_bytes();
  }
  for (uint64_t i = 0; i < tombstones; ++i)
    segment->tombstones.push_back({chunk_id(first_stripe + i, 1), first_stripe + i});
  return segment;
}

/// A disk with a cleaner, and an index that the test fills.
struct CleanerRig {
  explicit CleanerRig(uint64_t segment_bytes = 64 * 1024)
      : limits{.segment_bytes = segment_bytes, .allocation_step_bytes = 64 * 1024} {
    KINTSUGI_EXPECT_OK(simulation.run(disk.prepare()));
    appender.start(tasks);
  }
  ~CleanerRig() {
    appender.stop();
    simulation.run(tasks.join());
  }
  /// Appends a chunk, or a tombstone when there is no data.
  Status append(ChunkId id, size_t bytes) {
    const std::vector<std::byte> data = chunk_bytes(bytes, id.stripe.value);
    RecordHeader header;
    if (bytes > 0) {
      header.info = {id, bytes, crc32c(data)};
      header.block_crcs = crc32c_blocks(data);
      header.sequence = index.take_sequence();
    } else {
      header.tombstones.push_back({id, index.take_sequence()});
    }
    SegmentAppender::Record record(runtime, std::move(header), data);
    return simulation.run(appender.append(record));
  }

  QuietLog quiet;
  simulation::Simulation simulation{1};
  simulation::SimNode node{simulation, "server"};
  runtime::Runtime runtime = node.runtime();
  DiskHealth health{runtime.clock};
  DataDisk disk{runtime, runtime.disk, health, "/d0", 16};
  const SegmentLimits limits;
  SegmentIndex index;
  SegmentAppender appender{runtime, disk, limits, index};
  SegmentCleaner cleaner{runtime, disk, limits, index, appender};
  runtime::TaskGroup tasks{runtime};
};

TEST(SegmentIndex, CleaningASegmentLooksAtWhatItHoldsHoweverMuchTheDiskHas) {
  CleanerRig rig;
  // 200,000 chunks that live, and 100,000 tombstones that keep dead records of other segments dead.
  for (uint64_t number = 1; number <= 100; ++number)
    rig.index.load(loaded(number, number * 10'000, 2000, 1000));
  for (uint64_t number = 1; number <= 100; ++number) {
    auto dead = std::make_shared<Segment>();
    dead->number = 1000 + number;
    for (uint64_t i = 0; i < 1000; ++i)
      dead->records.push_back({{chunk_id(number * 10'000 + i, 1), 0, 0}, i * kRecordHeaderBytes, 1});
    rig.index.load(dead);
  }
  rig.index.settle();
  for (uint64_t stripe = 1; stripe <= 20; ++stripe)
    KINTSUGI_ASSERT_OK(rig.append(chunk_id(stripe), 4096));
  for (uint64_t stripe = 1; stripe <= 7; ++stripe)
    KINTSUGI_ASSERT_OK(rig.append(chunk_id(stripe), 0));
  const uint64_t before = rig.index.looked_at();
  auto cleaned = rig.simulation.run(rig.cleaner.clean_one(Context{}));
  ASSERT_TRUE(cleaned);
  EXPECT_TRUE(*cleaned);
  // The first segment had eight chunks, of which one is alive.
  EXPECT_LE(rig.index.looked_at() - before, 20u);
  EXPECT_GE(rig.index.looked_at() - before, 8u);
  EXPECT_NE(rig.index.find(chunk_id(8)), nullptr);
  EXPECT_EQ(rig.index.find(chunk_id(7)), nullptr);
}

TEST(SegmentIndex, TombstonesAreCopiedAFewHundredAtATime) {
  CleanerRig rig(16 << 20);
  auto dead = std::make_shared<Segment>();
  dead->number = 1;
  auto graves = std::make_shared<Segment>();
  graves->number = 2;
  graves->path = "/d0/segments/" + segment_file_name(2, 0);
  graves->end = kRecordHeaderBytes;
  for (uint64_t stripe = 1; stripe <= 1000; ++stripe) {
    dead->records.push_back({{chunk_id(stripe), 0, 0}, stripe * kRecordHeaderBytes, stripe});
    graves->tombstones.push_back({chunk_id(stripe), 1000 + stripe});
  }
  rig.index.load(graves);
  rig.index.load(dead);
  rig.index.settle();
  auto cleaned = rig.simulation.run(rig.cleaner.clean_one(Context{}));
  ASSERT_TRUE(cleaned) << cleaned.error();
  EXPECT_FALSE(rig.index.holds(*graves));
  // Each is in the new segment now, in six records of 192.
  EXPECT_EQ(rig.appender.active()->tombstones.size(), 1000u);
  EXPECT_EQ(rig.appender.active()->end, 6 * kRecordHeaderBytes);
  for (const Tombstone& tombstone : rig.appender.active()->tombstones)
    EXPECT_TRUE(rig.index.is_needed(*rig.appender.active(), tombstone));
  // Without the dead records nobody needs them.
  rig.index.forget_segment(*dead);
  for (const Tombstone& tombstone : rig.appender.active()->tombstones)
    EXPECT_FALSE(rig.index.is_needed(*rig.appender.active(), tombstone));
}

TEST(SegmentIndex, AChunkThatWasReplacedInItsOwnSegmentIsCopiedOnce) {
  CleanerRig rig;
  for (int i = 0; i < 3; ++i)
    KINTSUGI_ASSERT_OK(rig.append(chunk_id(1), 4096));
  const std::shared_ptr<Segment> segment = rig.index.segments().at(0);
  EXPECT_FALSE(rig.index.is_live(*segment, 0));
  EXPECT_FALSE(rig.index.is_live(*segment, 1));
  EXPECT_TRUE(rig.index.is_live(*segment, 2));
  EXPECT_EQ(segment->live_bytes, 2 * 4096u);
}

}  // namespace
}  // namespace kintsugi::chunkserver
