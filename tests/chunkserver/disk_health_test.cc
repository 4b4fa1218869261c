// One disk of several is slow, hung, read-only or has bad sectors: only what lies on it suffers, and nothing is lost that comes
// back.
#include "chunkserver/store/disk/disk_health.h"

#include "tests/chunkserver/cluster_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint64_t kChunks = 12;

DiskCondition condition(const StoreRig& rig, size_t disk) {
  return rig.store->disk_reports().at(disk).condition;
}

/// Puts large and small chunks on both of two disks of equal size.
void fill_two_disks(StoreRig& rig) {
  for (const char* disk : {"/d0", "/d1"})
    rig.node.disk().set_capacity(disk, uint64_t{1} << 30);
  rig.start();
  for (uint64_t stripe = 1; stripe <= kChunks; ++stripe) {
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(2 * kMiB, stripe)));
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe, 1), chunk_bytes(5000, stripe)));
  }
  for (const DiskReport& disk : rig.store->disk_reports())
    ASSERT_GT(disk.chunks, 4u) << disk.path;
}

/// Puts small chunks of the stripes 1 to 3 into one segment and returns its file. Each is a record of two blocks there: its
/// header and its bytes.
std::string make_segment_of_three(StoreRig& rig) {
  rig.start();
  for (uint64_t stripe = 1; stripe <= 3; ++stripe)
    KINTSUGI_EXPECT_OK(rig.put(chunk_id(stripe), chunk_bytes(3000, stripe)));
  return "/d0/segments/" + rig.files("/d0/segments").at(0);
}

/// Starts the only server of a cluster again, with a second disk.
void add_second_disk(ClusterRig& rig) {
  rig.stop_server(0);
  rig.disks = {"/disk", "/second"};
  rig.start_server(0);
}

std::set<ChunkId> chunks_of(const StoreRig& rig, uint32_t disk) {
  std::set<ChunkId> chunks;
  for (const ListedChunk& chunk : rig.store->list_with_disks({}, 1000))
    if (chunk.disk == disk) chunks.insert(chunk.info.id);
  return chunks;
}

TEST(DiskHealth, ErrorsThatLieFarApartNeverMakeADiskFail) {
  StoreRig rig;
  DiskHealth health(rig.node.runtime().clock);
  for (int i = 0; i < 500; ++i) {
    EXPECT_FALSE(health.note({Code::kIoError, "write"}));
    rig.simulation.run_for(30s);
  }
  EXPECT_EQ(health.write_errors(), 500u);
  EXPECT_EQ(health.condition(), DiskCondition::kWell);
}

TEST(DiskHealth, ErrorsOfWritesAreJudgedApartFromThoseOfReads) {
  StoreRig rig;
  DiskHealth health(rig.node.runtime().clock);
  for (int i = 0; i < 60; ++i)
    EXPECT_FALSE(health.note({Code::kMediumError, "read"}));
  for (int i = 0; i < 8; ++i)
    EXPECT_FALSE(health.note({Code::kIoError, "sync"}));
  EXPECT_TRUE(health.note({Code::kIoError, "sync"}));
  EXPECT_EQ(health.read_errors(), 60u);
}

TEST(DiskHealth, ADiskWithAFewBadSectorsAmongManyGoodOnesStays) {
  StoreRig rig;
  DiskHealth health(rig.node.runtime().clock);
  for (int chunk = 0; chunk < 20'000; ++chunk) {
    if (chunk % 100 == 0) {
      EXPECT_FALSE(health.note({Code::kMediumError, "read"}));
    } else {
      health.read_succeeded();
    }
  }
}

TEST(DiskHealth, ABadSectorCostsTheChunkThatLiesOnItAndNotTheDisk) {
  StoreRig rig(1, 2);
  fill_two_disks(rig);
  const std::set<ChunkId> on_first = chunks_of(rig, 0);
  const ChunkId large = *std::ranges::find_if(on_first, [](ChunkId id) { return id.index == 0; });
  const std::string path = chunk_file(rig.node.disk(), "/d0", large);
  KINTSUGI_ASSERT_OK(rig.node.disk().spoil(path, 4096 + kMiB));
  for (int round = 0; round < 20; ++round)
    EXPECT_FALSE(rig.get(large));
  ASSERT_FALSE(rig.store->find(large));
  const auto lost = rig.store->take_lost();
  ASSERT_EQ(lost.size(), 1u) << "it is told, to be repaired";
  EXPECT_EQ(lost[0].id, large);
  EXPECT_EQ(rig.store->counters().corrupt_chunks, 1u);
  EXPECT_EQ(condition(rig, 0), DiskCondition::kWell);
  EXPECT_GT(rig.store->disk_reports().at(0).read_errors, 0u);
  EXPECT_EQ(rig.store->chunks(), 2 * kChunks - 1);
  // A repair may put it back here.
  KINTSUGI_EXPECT_OK(rig.put(large, chunk_bytes(2 * kMiB, large.stripe.value)));
  EXPECT_EQ(*rig.get(large), chunk_bytes(2 * kMiB, large.stripe.value));
}

TEST(DiskHealth, ABadBlockUnderTheHeaderOfASmallChunkCostsThatChunkAlone) {
  StoreRig rig;
  KINTSUGI_ASSERT_OK(rig.node.disk().spoil(make_segment_of_three(rig), 0));
  EXPECT_EQ(*rig.get(chunk_id(1)), chunk_bytes(3000, 1))
      << "its bytes are whole, and nobody needs its header";
  EXPECT_FALSE(rig.get(chunk_id(1), ReadFor::kVerification));
  EXPECT_FALSE(rig.store->find(chunk_id(1)));
  for (uint64_t stripe = 2; stripe <= 3; ++stripe)
    EXPECT_EQ(*rig.get(chunk_id(stripe), ReadFor::kVerification), chunk_bytes(3000, stripe));
  EXPECT_EQ(condition(rig, 0), DiskCondition::kWell);
}

TEST(DiskHealth, ABadBlockUnderTheBytesOfASmallChunkCostsThatChunkAlone) {
  StoreRig rig;
  KINTSUGI_ASSERT_OK(rig.node.disk().spoil(make_segment_of_three(rig), 4096));
  EXPECT_FALSE(rig.get(chunk_id(1)));
  EXPECT_FALSE(rig.store->find(chunk_id(1)));
  EXPECT_EQ(rig.store->take_lost().size(), 1u);
  for (uint64_t stripe = 2; stripe <= 3; ++stripe)
    EXPECT_EQ(*rig.get(chunk_id(stripe)), chunk_bytes(3000, stripe));
  EXPECT_EQ(condition(rig, 0), DiskCondition::kWell);
}

TEST(DiskHealth, ABadBlockInASegmentCostsNoDiskAtTheNextStart) {
  StoreRig rig;
  KINTSUGI_ASSERT_OK(rig.node.disk().spoil(make_segment_of_three(rig), 8192));  // the second record
  for (int restarts = 0; restarts < 2; ++restarts) {
    rig.restart();
    EXPECT_EQ(rig.store->known_space().failed_disks, 0u);
    for (const uint64_t stripe : {1, 3}) {
      const auto read = rig.get(chunk_id(stripe));
      ASSERT_TRUE(read) << read.error();
      EXPECT_EQ(*read, chunk_bytes(3000, stripe));
    }
    EXPECT_FALSE(rig.get(chunk_id(2)));
  }
}

TEST(DiskHealth, TheCleanerThatMeetsABadBlockDropsThatChunkAndGoesOn) {
  SegmentLimits segments;
  segments.segment_bytes = 256 * 1024;
  segments.allocation_step_bytes = 64 * 1024;
  StoreRig rig(1, 1, segments);
  rig.start();
  for (uint64_t stripe = 1; stripe <= 60; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(20'000, stripe)));
  const std::string first = "/d0/segments/" + rig.files("/d0/segments").at(0);
  for (uint64_t stripe = 2; stripe <= 60; ++stripe) {
    if (stripe % 10 != 0) {
      KINTSUGI_ASSERT_OK(rig.remove(chunk_id(stripe)));
    }
  }
  KINTSUGI_ASSERT_OK(rig.node.disk().spoil(first, 8192));  // in chunk 1, which lives
  rig.simulation.run_for(20min);
  EXPECT_EQ(condition(rig, 0), DiskCondition::kWell);
  EXPECT_LE(rig.store->disk_reports().at(0).read_errors, 3u) << "it is not read again and again";
  EXPECT_FALSE(rig.store->find(chunk_id(1)));
  EXPECT_EQ(rig.store->take_lost().size(), 1u);
  EXPECT_FALSE(rig.node.disk().exists(first)) << "the segment is cleaned";
  for (uint64_t stripe = 10; stripe <= 60; stripe += 10)
    EXPECT_EQ(*rig.get(chunk_id(stripe)), chunk_bytes(20'000, stripe));
}

TEST(DiskHealth, AReadOnlyDiskServesWhatItHasAndTakesNothingNew) {
  StoreRig rig(1, 2);
  fill_two_disks(rig);
  const std::set<ChunkId> on_first = chunks_of(rig, 0);
  rig.node.disk().set_read_only(true, "/d0");
  // Enough that each disk would get some.
  for (uint64_t stripe = 100; stripe < 116; ++stripe)
    (void)rig.put(chunk_id(stripe), chunk_bytes(2 * kMiB, stripe));
  EXPECT_EQ(condition(rig, 0), DiskCondition::kReadOnly);
  EXPECT_FALSE(rig.store->disk_reports().at(0).reason.empty());
  for (int restarts = 0; restarts < 2; ++restarts) {
    KINTSUGI_EXPECT_OK(rig.put(chunk_id(200 + restarts), chunk_bytes(2 * kMiB, 200)));
    EXPECT_TRUE(rig.store->take_lost().empty());
    for (const ChunkId id : on_first) {
      const size_t bytes = id.index == 0 ? 2 * kMiB : 5000;
      const auto read = rig.get(id);
      ASSERT_TRUE(read) << read.error();
      EXPECT_EQ(*read, chunk_bytes(bytes, id.stripe.value));
    }
    EXPECT_EQ(rig.store->known_space().failed_disks, 0u);
    rig.restart();
  }
}

TEST(DiskHealth, ADiskThatAnswersNoSpaceIsFullUntilItReportsMoreRoom) {
  StoreRig rig;
  rig.node.disk().set_capacity("/d0", uint64_t{1} << 30);
  rig.start();
  EXPECT_GT(rig.store->known_space().free_bytes, 500 * kMiB);
  rig.node.disk().fail_next(1, Code::kNoSpace, "/d0", simulation::DiskOp::kWrite);
  EXPECT_EQ(rig.put(chunk_id(1), chunk_bytes(2 * kMiB, 1)).code(), Code::kNoSpace);
  EXPECT_EQ(rig.store->known_space().free_bytes, 0u) << "nobody should choose it, whatever it reports";
  EXPECT_TRUE(rig.store->disk_reports().at(0).full);
  EXPECT_EQ(rig.store->disk_reports().at(0).condition, DiskCondition::kWell) << "it has not failed";
  // More room is reported: somebody removed files.
  rig.node.disk().set_capacity("/d0", (uint64_t{1} << 30) + 64 * kMiB);
  rig.simulation.run_for(3s);
  EXPECT_FALSE(rig.store->disk_reports().at(0).full);
  KINTSUGI_EXPECT_OK(rig.put(chunk_id(1), chunk_bytes(2 * kMiB, 1)));
  // Without any news it is tried again after a while.
  rig.node.disk().fail_next(1, Code::kNoSpace, "/d0", simulation::DiskOp::kWrite);
  EXPECT_EQ(rig.put(chunk_id(2), chunk_bytes(2 * kMiB, 2)).code(), Code::kNoSpace);
  EXPECT_TRUE(rig.store->disk_reports().at(0).full);
  rig.simulation.run_for(DiskRoom::kTriedAgainAfter + 3s);
  KINTSUGI_EXPECT_OK(rig.put(chunk_id(2), chunk_bytes(2 * kMiB, 2)));
}

TEST(DiskHealth, ADiskThatReportsNoFreeBytesIsFullUntilItReportsSome) {
  StoreRig rig;
  rig.node.disk().set_capacity("/d0", uint64_t{1} << 30);
  rig.start();
  EXPECT_FALSE(rig.store->disk_reports().at(0).full);
  rig.node.disk().fill("/d0");
  rig.simulation.run_for(3s);
  EXPECT_TRUE(rig.store->disk_reports().at(0).full) << "before anybody has tried to write there";
  rig.node.disk().set_capacity("/d0", (uint64_t{1} << 30) + 64 * kMiB);
  rig.simulation.run_for(3s);
  EXPECT_FALSE(rig.store->disk_reports().at(0).full);
}

TEST(DiskHealth, ErrorsOfADiskAreLoggedOneInAMinuteWithTheirNumber) {
  StoreRig rig;
  rig.start();
  for (uint64_t stripe = 1; stripe <= 5; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(2 * kMiB, stripe)));
  std::vector<std::string> lines;
  log::set_sink([&](log::Level, std::string_view line) {
    if (line.find("gave an error") != line.npos) lines.emplace_back(line);
  });
  const auto fail_once = [&](uint64_t stripe) {
    rig.node.disk().fail_next(1, Code::kIoError, "/d0", simulation::DiskOp::kWrite);
    EXPECT_EQ(rig.put(chunk_id(100 + stripe), chunk_bytes(2 * kMiB, 1)).code(), Code::kIoError);
  };
  fail_once(1);
  ASSERT_EQ(lines.size(), 1u) << "one is enough";
  EXPECT_NE(lines[0].find("disk /d0 gave an error: "), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("/d0/tmp/"), std::string::npos)
      << "it names what was done to which file: " << lines[0];
  fail_once(2);
  fail_once(3);
  EXPECT_EQ(lines.size(), 1u) << "a disk that fails must not fill the log";
  rig.simulation.run_for(61s);
  fail_once(4);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[1].find("(2 more since the last line)"), std::string::npos) << lines[1];
  log::set_sink({});
}

TEST(DiskHealth, AShortageOfMemoryDropsNothing) {
  StoreRig rig;
  rig.start();
  KINTSUGI_ASSERT_OK(rig.put(chunk_id(1), chunk_bytes(2 * kMiB, 1)));
  rig.node.disk().fail_next(200, Code::kOutOfMemory, "/d0");
  for (int i = 0; i < 20; ++i)
    (void)rig.get(chunk_id(1));
  rig.simulation.run_for(30s);
  rig.node.disk().forget_faults();
  EXPECT_EQ(condition(rig, 0), DiskCondition::kWell);
  EXPECT_EQ(*rig.get(chunk_id(1)), chunk_bytes(2 * kMiB, 1));
}

TEST(DiskHealth, AHungDiskHoldsUpNoOtherOneAndKeepsItsChunks) {
  StoreRig rig(1, 2);
  fill_two_disks(rig);
  const std::set<ChunkId> on_first = chunks_of(rig, 0), on_second = chunks_of(rig, 1);
  rig.node.disk().set_hung(true, "/d0");
  rig.simulation.run_for(15s);
  EXPECT_EQ(condition(rig, 0), DiskCondition::kHung);
  EXPECT_EQ(condition(rig, 1), DiskCondition::kWell);
  EXPECT_GT(rig.store->disk_reports().at(0).oldest_call, DiskHealth::kHungAfter);
  const TimePoint before = rig.simulation.now();
  for (const ChunkId id : on_first)
    EXPECT_EQ(rig.get(id).error().code(), Code::kUnavailable);
  EXPECT_EQ(rig.simulation.run(rig.store->remove(Context{}, *on_first.begin())).code(), Code::kUnavailable);
  for (const ChunkId id : on_second)
    EXPECT_TRUE(rig.get(id));
  for (uint64_t stripe = 100; stripe < 110; ++stripe)
    KINTSUGI_EXPECT_OK(rig.put(chunk_id(stripe), chunk_bytes(2 * kMiB, stripe)));
  EXPECT_LT(rig.simulation.now() - before, 1s);
  EXPECT_TRUE(rig.store->take_lost().empty()) << "what hangs is not lost";
  rig.node.disk().set_hung(false, "/d0");
  rig.simulation.run_for(1s);
  EXPECT_EQ(condition(rig, 0), DiskCondition::kSlow);
  for (const ChunkId id : on_first)
    EXPECT_TRUE(rig.get(id)) << id;
  rig.simulation.run_for(DiskHealth::kSlowFor);
  EXPECT_EQ(condition(rig, 0), DiskCondition::kWell);
}

TEST(DiskHealth, AReadThatIsUnderWayWhenItsDiskBeginsToHangEndsAsSoonAsThatIsKnown) {
  for (const bool open_before : {false, true}) {
    SCOPED_TRACE(open_before);
    ClusterRig rig(1);
    constexpr size_t kLarge = 3 * kMiB, kSmall = 40'000;
    KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), chunk_bytes(kLarge, 1)));
    KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(2), chunk_bytes(kSmall, 2)));
    if (open_before) {
      for (const uint64_t stripe : {1, 2})
        EXPECT_TRUE(rig.get(0, chunk_id(stripe)));
    }
    rig.store(0).cache().clear();
    runtime::BufferPool& buffers = rig.servers[0].server->buffers();
    const size_t free = buffers.free();
    rig.servers[0].node->disk().set_hung(true, "/disk");
    const TimePoint began = rig.simulation.now();
    // More at once than the disk has buffers, so that some wait for a buffer.
    std::vector<Code> ended;
    const auto read = [](ClusterRig& cluster, uint64_t stripe,
                         std::vector<Code>& codes) -> asio::awaitable<void> {
      const auto data = co_await ClusterRig::get_chunk(cluster, 0, chunk_id(stripe), 0, kMaxChunkBytes);
      codes.push_back(data ? Code::kOk : data.error().code());
    };
    constexpr size_t kReads = 100;
    for (size_t i = 0; i < kReads; ++i)
      asio::co_spawn(rig.simulation.executor(), read(rig, 1 + i % 2, ended), asio::detached);
    while (ended.size() < kReads && rig.simulation.now() - began < 1min)
      rig.simulation.run_for(100ms);
    EXPECT_LT(rig.simulation.now() - began, DiskHealth::kHungAfter + 2s);
    EXPECT_EQ(std::ranges::count(ended, Code::kUnavailable), static_cast<ptrdiff_t>(kReads));
    rig.servers[0].node->disk().forget_faults();
    rig.simulation.run_for(1s);
    EXPECT_EQ(buffers.free(), free) << "what the disk was given is back when it has answered";
    EXPECT_EQ(*rig.get(0, chunk_id(1)), chunk_bytes(kLarge, 1));
    EXPECT_EQ(*rig.get(0, chunk_id(2)), chunk_bytes(kSmall, 2));
  }
}

TEST(DiskHealth, ADiskThatIsMissingAtTheStartHasFailedAloneAndItsDirectoryIsNotMade) {
  StoreRig rig(1, 2);
  fill_two_disks(rig);
  const std::set<ChunkId> on_second = chunks_of(rig, 1);
  rig.stop();
  KINTSUGI_ASSERT_OK(rig.node.disk().remove_all("/d0"));
  rig.options.missing_disks = {{"/d0", "there is no such directory"}};
  rig.start();
  EXPECT_EQ(condition(rig, 0), DiskCondition::kFailed);
  EXPECT_EQ(rig.store->disk_reports().at(0).reason, "there is no such directory");
  EXPECT_EQ(rig.store->known_space().failed_disks, 1u);
  EXPECT_EQ(rig.store->chunks(), on_second.size());
  for (const ChunkId id : on_second)
    EXPECT_TRUE(rig.get(id));
  KINTSUGI_EXPECT_OK(rig.put(chunk_id(100), chunk_bytes(2 * kMiB, 100)));
  EXPECT_FALSE(rig.node.disk().exists("/d0"));
}

TEST(DiskHealth, AHungDiskStopsNoHeartbeatAndIsToldInEachOfThem) {
  ClusterRig rig(1);
  rig.servers[0].node->disk().set_capacity("/second", uint64_t{1} << 41);
  add_second_disk(rig);
  rig.simulation.run_for(3s);
  rig.meta.heartbeats.clear();
  rig.servers[0].node->disk().set_hung(true, "/second");
  // The mark of the metadata goes to all disks, and no heartbeat may wait for that either.
  rig.meta.next_answer.mutable_metadata()->set_epoch(3);
  rig.simulation.run_for(20s);
  EXPECT_GE(rig.meta.heartbeats.size(), 18u);
  const auto& disks = rig.meta.heartbeats.back().disk_states();
  ASSERT_EQ(disks.size(), 2);
  EXPECT_EQ(disks[0].health(), proto::DiskState::WELL);
  EXPECT_EQ(disks[1].health(), proto::DiskState::HUNG);
  EXPECT_EQ(disks[1].path(), "/second");
  EXPECT_GT(disks[1].oldest_call_seconds(), 10);
  EXPECT_FALSE(disks[1].reason().empty());
  // Also one that must register anew, as after a restart of the metaserver, waits for no disk.
  rig.meta.next_answer.set_register_again(true);
  const size_t registrations = rig.meta.registrations.size();
  rig.meta.heartbeats.clear();
  rig.simulation.run_for(5s);
  EXPECT_EQ(rig.meta.registrations.size(), registrations + 1);
  EXPECT_GE(rig.meta.heartbeats.size(), 3u);
  rig.servers[0].node->disk().forget_faults();
}

asio::awaitable<void> put_some(ChunkStore& store, const std::vector<ChunkId>& ids, size_t& next) {
  while (next < ids.size()) {
    const ChunkId id = ids[next++];
    const auto bytes = chunk_bytes(100, id.stripe.value);
    const ChunkInfo info{id, bytes.size(), crc32c(bytes)};
    KINTSUGI_EXPECT_OK(co_await store.put_small(Context{}, {info, kTestPolicy}, bytes));
  }
}

void put_all(ClusterRig& rig, const std::vector<ChunkId>& ids) {
  size_t next = 0;
  runtime::TaskGroup puts(*rig.servers[0].runtime);
  for (int i = 0; i < 200; ++i)
    puts.spawn(put_some(rig.store(0), ids, next));
  rig.simulation.run(puts.join());
}

std::vector<ChunkId> chunk_ids(uint64_t count) {
  std::vector<ChunkId> ids;
  for (uint64_t stripe = 1; stripe <= count; ++stripe)
    ids.push_back(chunk_id(stripe));
  return ids;
}

std::set<ChunkId> told_lost(const ClusterRig& rig) {
  std::set<ChunkId> told;
  for (const auto& heartbeat : rig.meta.heartbeats)
    for (const auto& lost : heartbeat.lost())
      told.insert({StripeId{lost.stripe_id()}, lost.index()});
  return told;
}

TEST(DiskHealth, ALostDiskIsToldWithoutAPause) {
  ClusterRig rig(1);
  add_second_disk(rig);
  put_all(rig, chunk_ids(41'000));
  const auto disks = rig.store(0).disk_reports();
  const size_t fuller = disks.at(0).chunks > disks.at(1).chunks ? 0 : 1;
  const uint64_t on_it = disks.at(fuller).chunks;
  ASSERT_GE(on_it, 20'000u);
  KINTSUGI_ASSERT_OK(rig.servers[0].node->disk().remove_all(disks.at(fuller).path));
  const auto failed = [&] { return rig.store(0).known_space().failed_disks > 0; };
  ASSERT_TRUE(rig.simulation.run_until(failed));
  rig.meta.heartbeats.clear();
  rig.simulation.run_for(1500ms);
  for (const auto& heartbeat : rig.meta.heartbeats)
    EXPECT_LE(static_cast<size_t>(heartbeat.lost_size()), Heartbeat::kMaxLost);
  EXPECT_EQ(told_lost(rig).size(), on_it);
}

TEST(DiskHealth, ChunksThatAreBackAreNotToldLostAndHoldUpNoOtherOnes) {
  ClusterRig rig(1);
  add_second_disk(rig);
  put_all(rig, chunk_ids(6000));
  std::vector<ChunkId> on_first;
  for (const ListedChunk& chunk : rig.store(0).list_with_disks({}, 6000))
    if (chunk.disk == 0) on_first.push_back(chunk.info.id);
  ASSERT_GT(on_first.size(), 2 * Heartbeat::kMaxLost);
  KINTSUGI_ASSERT_OK(rig.servers[0].node->disk().remove_all("/disk"));
  ASSERT_TRUE(rig.simulation.run_until([&] { return rig.store(0).known_space().failed_disks > 0; }));
  // Before a heartbeat arrives, repairs have put all but the last back here.
  rig.meta.refusal = {Code::kUnavailable, "not now"};
  const ChunkId last = on_first.back();
  on_first.pop_back();
  put_all(rig, on_first);
  rig.meta.refusal = {};
  rig.simulation.run_for(1ms);
  rig.meta.heartbeats.clear();
  rig.simulation.run_for(5s);
  EXPECT_EQ(told_lost(rig), std::set<ChunkId>{last});
}

}  // namespace
}  // namespace kintsugi::chunkserver
