// Footers of sealed segments: a start reads them instead of the segments, and does without one that is not whole.
#include "chunkserver/store/segments/segment_footer.h"

#include "tests/chunkserver/store_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

SegmentLimits small_segments() {
  SegmentLimits limits;
  limits.segment_bytes = 512 * 1024;
  limits.allocation_step_bytes = 64 * 1024;
  limits.clean_interval = std::chrono::hours(10);
  return limits;
}

size_t length_of(uint64_t stripe) {
  return 1000 + stripe * 37 % 30'000;
}

/// Chunks 1 to `chunks`, of which every fifth was removed again. They lie in several segments.
void fill(StoreRig& rig, uint64_t chunks) {
  rig.start();
  for (uint64_t stripe = 1; stripe <= chunks; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(length_of(stripe), stripe)));
  for (uint64_t stripe = 5; stripe <= chunks; stripe += 5)
    KINTSUGI_ASSERT_OK(rig.remove(chunk_id(stripe)));
}

void expect_all(StoreRig& rig, uint64_t chunks) {
  EXPECT_EQ(rig.store->chunks(), chunks - chunks / 5);
  for (uint64_t stripe = 1; stripe <= chunks; ++stripe) {
    const auto bytes = rig.get(chunk_id(stripe));
    if (stripe % 5 == 0) {
      EXPECT_EQ(bytes.error().code(), Code::kNotFound) << stripe;
    } else {
      ASSERT_TRUE(bytes) << stripe << ": " << bytes.error();
      EXPECT_EQ(*bytes, chunk_bytes(length_of(stripe), stripe));
    }
  }
}

std::string path_of_segment(StoreRig& rig, size_t i = 0) {
  return "/d0/segments/" + rig.files("/d0/segments").at(i);
}

uint64_t file_bytes(StoreRig& rig, const std::string& path) {
  return rig.node.disk().read_now(path)->size();
}

uint64_t bytes_read_by_start(StoreRig& rig) {
  const uint64_t before = rig.node.disk().counters().bytes_read;
  rig.start();
  return rig.node.disk().counters().bytes_read - before;
}

/// Where the footer of the segment begins; the end of the file when it has none.
uint64_t begin_of_footer(StoreRig& rig, const std::string& path) {
  const std::vector<std::byte> bytes = *rig.node.disk().read_now(path);
  const auto name = parse_segment_file_name(path.substr(path.rfind('/') + 1));
  const auto footer = footer_bytes(std::span(bytes).last(4096), name->salt, bytes.size());
  return bytes.size() - (footer ? *footer : 0);
}

TEST(SegmentFooter, AStartReadsFootersInsteadOfSegments) {
  StoreRig rig(1, 1, small_segments());
  fill(rig, 200);
  rig.stop();
  uint64_t stored = 0;
  for (size_t i = 0; i < rig.files("/d0/segments").size(); ++i) {
    const std::string path = path_of_segment(rig, i);
    EXPECT_LT(begin_of_footer(rig, path), file_bytes(rig, path)) << "also the one that grew last";
    stored += file_bytes(rig, path);
  }
  EXPECT_GT(stored, 2u << 20);
  EXPECT_LT(bytes_read_by_start(rig), stored / 4);
  expect_all(rig, 200);
}

TEST(SegmentFooter, OneIsWrittenForEachSegmentThatHasNone) {
  StoreRig rig(1, 1, small_segments());
  fill(rig, 100);
  rig.stop();
  // As an older version left them, and as a crash leaves the last one.
  for (size_t i = 0; i < rig.files("/d0/segments").size(); ++i) {
    const std::string path = path_of_segment(rig, i);
    KINTSUGI_ASSERT_OK(rig.node.disk().resize(path, begin_of_footer(rig, path)));
  }
  rig.start();
  expect_all(rig, 100);
  rig.crash_and_restart(false);
  for (size_t i = 0; i < rig.files("/d0/segments").size(); ++i) {
    const std::string path = path_of_segment(rig, i);
    EXPECT_LT(begin_of_footer(rig, path), file_bytes(rig, path));
  }
  expect_all(rig, 100);
}

TEST(SegmentFooter, OneThatIsCutOffAtAnyByteIsNoDamage) {
  for (uint64_t from_end = 0; from_end <= 8192; from_end += from_end < 80 ? 1 : 173) {
    SCOPED_TRACE(std::to_string(from_end) + " bytes are missing");
    StoreRig rig(1, 1, small_segments());
    fill(rig, 20);
    rig.stop();
    const std::string path = path_of_segment(rig);
    const uint64_t footer = begin_of_footer(rig, path), end = file_bytes(rig, path);
    KINTSUGI_ASSERT_OK(rig.node.disk().resize(path, std::max(footer, end - std::min(end, from_end))));
    rig.start();
    expect_all(rig, 20);
    EXPECT_TRUE(rig.store->take_lost().empty());
    rig.restart();
    expect_all(rig, 20);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(SegmentFooter, OneWithAFlippedBitAnywhereIsNoDamage) {
  StoreRig rig(1, 1, small_segments());
  fill(rig, 20);
  rig.stop();
  for (uint64_t from_end = 1; from_end <= 4096; from_end += from_end < 70 ? 1 : 97) {
    SCOPED_TRACE(std::to_string(from_end) + " bytes before the end");
    const std::string path = path_of_segment(rig);
    const uint64_t at = file_bytes(rig, path) - from_end;
    ASSERT_GE(at, begin_of_footer(rig, path));
    KINTSUGI_ASSERT_OK(rig.node.disk().flip_bit(path, at, from_end % 8));
    rig.start();
    expect_all(rig, 20);
    rig.stop();  // a new footer is there
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(SegmentFooter, OneUnderABadSectorIsNoDamageAndTheSectorStaysAsItIs) {
  StoreRig rig(1, 1, small_segments());
  fill(rig, 20);
  rig.stop();
  const std::string path = path_of_segment(rig);
  const uint64_t bytes = file_bytes(rig, path);
  KINTSUGI_ASSERT_OK(rig.node.disk().spoil(path, begin_of_footer(rig, path)));
  rig.start();
  expect_all(rig, 20);
  EXPECT_EQ(file_bytes(rig, path), bytes);
  EXPECT_EQ(rig.store->known_space().failed_disks, 0u);
}

TEST(SegmentFooter, ADiskThatGivesAnErrorWhenItIsWrittenIsStillRead) {
  StoreRig rig(1, 1, small_segments());
  fill(rig, 20);
  rig.stop();
  const std::string path = path_of_segment(rig);
  KINTSUGI_ASSERT_OK(rig.node.disk().resize(path, begin_of_footer(rig, path)));
  for (const auto op : {simulation::DiskOp::kSync, simulation::DiskOp::kWrite}) {
    rig.node.disk().fail_next(1, Code::kIoError, "/d0/segments", op);
    rig.start();
    expect_all(rig, 20);
    EXPECT_EQ(begin_of_footer(rig, path), file_bytes(rig, path));
    rig.stop();
    rig.node.disk().forget_faults();
  }
}

TEST(SegmentFooter, ThatOfAnotherSegmentOrPlaceIsNone) {
  Segment segment;
  segment.salt = 7;
  segment.records.push_back({{chunk_id(1), 5000, 1}, 0, 9});
  segment.tombstones.push_back({chunk_id(2), 10});
  segment.end = 16384;
  segment.last_group = 3;
  const AlignedMemory footer = encode_footer(segment);
  ASSERT_EQ(footer.size(), 4096u);
  EXPECT_EQ(footer_bytes(footer.span(), 7, 16384 + 4096).value(), 4096u);
  EXPECT_FALSE(footer_bytes(footer.span(), 8, 16384 + 4096));
  EXPECT_FALSE(footer_bytes(footer.span(), 7, 16384 + 8192));
  EXPECT_FALSE(footer_bytes(footer.span(), 7, 4096));
  Segment read;
  read.salt = 7;
  KINTSUGI_ASSERT_OK(decode_footer(footer.span(), read));
  EXPECT_EQ(read.end, segment.end);
  EXPECT_EQ(read.last_group, 3u);
  ASSERT_EQ(read.records.size(), 1u);
  EXPECT_EQ(read.records[0].info, segment.records[0].info);
  EXPECT_EQ(read.records[0].sequence, 9u);
  ASSERT_EQ(read.tombstones.size(), 1u);
  EXPECT_EQ(read.tombstones[0].id, chunk_id(2));
  EXPECT_EQ(read.tombstones[0].sequence, 10u);
}

/// A power loss while a segment is sealed leaves a part of the footer or none. After a kill, the group that was being written looks
/// whole though it was never synced: a footer must not vouch for it.
TEST(SegmentFooter, APowerLossWhileSegmentsAreSealedLosesNothing) {
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    StoreRig rig(seed, 1, small_segments());
    rig.start();
    std::set<uint64_t> stored;
    bool done = false;
    asio::co_spawn(
        rig.simulation.executor(),
        [](StoreRig& rig, std::set<uint64_t>& stored, bool& done) -> asio::awaitable<void> {
          for (uint64_t stripe = 1; rig.node.running(); ++stripe) {
            const auto bytes = chunk_bytes(length_of(stripe), stripe);
            const Status status = co_await put(*rig.store, *rig.pool, chunk_id(stripe), bytes);
            if (!status.ok()) break;
            stored.insert(stripe);
          }
          done = true;
        }(rig, stored, done),
        asio::detached);
    rig.simulation.run_for(std::chrono::microseconds(20'000 + seed * 1237));
    rig.node.crash(seed % 2 == 0);
    ASSERT_TRUE(rig.simulation.run_until([&] { return done; }, 10min));
    rig.stop();
    rig.node.restart();
    for (int start = 0; start < 2; ++start) {
      rig.start();
      for (const uint64_t stripe : stored) {
        const auto bytes = rig.get(chunk_id(stripe));
        ASSERT_TRUE(bytes) << stripe << ": " << bytes.error();
        EXPECT_EQ(*bytes, chunk_bytes(length_of(stripe), stripe));
      }
      // What was torn and not acknowledged is not claimed either, now or after a second start.
      for (const ChunkInfo& chunk : rig.store->list({}, 10'000))
        EXPECT_TRUE(rig.get(chunk.id)) << chunk.id;
      rig.node.crash();
      rig.stop();
      rig.node.restart();
    }
  }
}

}  // namespace
}  // namespace kintsugi::chunkserver
