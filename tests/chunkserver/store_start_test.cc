// What a start costs, and what it owes to disks that do not answer.
#include "tests/chunkserver/cluster_rig.h"
#include "tests/chunkserver/store_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

/// So many disks, with large and small chunks on each.
void fill_disks(StoreRig& rig, uint64_t chunks) {
  for (const std::string& disk : rig.options.disks)
    rig.node.disk().set_capacity(disk, uint64_t{1} << 32);
  rig.start();
  for (uint64_t stripe = 1; stripe <= chunks; ++stripe) {
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(kMiB + stripe, stripe)));
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe, 1), chunk_bytes(5000, stripe)));
  }
}

std::vector<std::string> all_files(StoreRig& rig, const std::string& disk) {
  std::vector<std::string> all;
  for (const char* room : {"/segments", "/quarantine"}) {
    for (const std::string& name : rig.files(disk + room))
      all.push_back(name);
  }
  for (const std::string& directory : rig.files(disk + "/chunks")) {
    for (const std::string& name : rig.files(disk + "/chunks/" + directory))
      all.push_back(name);
  }
  return all;
}

std::map<uint32_t, std::set<ChunkId>> by_disk(StoreRig& rig) {
  std::map<uint32_t, std::set<ChunkId>> chunks;
  for (const ListedChunk& chunk : rig.store->list_with_disks({}, 1000))
    chunks[chunk.disk].insert(chunk.info.id);
  return chunks;
}

Duration time_of_start(StoreRig& rig) {
  const TimePoint before = rig.simulation.now();
  rig.start();
  return rig.simulation.now() - before;
}

/// The first disk hangs `after` so long, and answers again when the start is over.
void hang_during_start(Duration after, int& caught) {
  SCOPED_TRACE(std::to_string(after.count()) + " ns");
  StoreRig rig(1, 3);
  fill_disks(rig, 24);
  const auto chunks = by_disk(rig);
  rig.stop();
  const auto files = all_files(rig, "/d0");
  bool hung = false;
  asio::co_spawn(
      rig.simulation.executor(),
      [](StoreRig& rig, Duration after, bool& hung) -> asio::awaitable<void> {
        runtime::TaskGroup tasks(rig.node.runtime());
        (void)co_await tasks.sleep_for(after);
        rig.node.disk().set_hung(true, "/d0");
        hung = true;
      }(rig, after, hung),
      asio::detached);
  EXPECT_LT(time_of_start(rig), DiskHealth::kHungAfter + 5s);
  ASSERT_TRUE(rig.simulation.run_until([&] { return hung; }));
  if (rig.store->known_space().failed_disks == 0) {  // the start had ended
    rig.node.disk().set_hung(false, "/d0");
    return;
  }
  ++caught;
  const DiskReport report = rig.store->disk_reports().at(0);
  EXPECT_EQ(report.condition, DiskCondition::kFailed);
  EXPECT_NE(report.reason.find("hangs"), std::string::npos) << report.reason;
  EXPECT_EQ(rig.store->chunks(), chunks.at(1).size() + chunks.at(2).size());
  for (uint32_t disk : {1, 2}) {
    for (const ChunkId id : chunks.at(disk))
      EXPECT_TRUE(rig.get(id)) << id;
  }
  KINTSUGI_EXPECT_OK(rig.put(chunk_id(1000), chunk_bytes(2 * kMiB, 1000)));
  rig.node.disk().set_hung(false, "/d0");
  rig.simulation.run_for(10s);
  EXPECT_EQ(rig.store->counters().disks_joined, 1u);
  // Nothing is told lost that a block report did not lack anyway; the store that runs has everything, and so has the next start.
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(rig.store->known_space().failed_disks, 0u);
    EXPECT_EQ(all_files(rig, "/d0"), files);
    EXPECT_TRUE(rig.store->take_lost().empty());
    EXPECT_EQ(by_disk(rig).at(0), chunks.at(0));
    for (const ChunkId id : chunks.at(0))
      EXPECT_TRUE(rig.get(id)) << id;
    rig.restart();
  }
}

TEST(StoreStart, ADiskThatHangsHoldsUpNoOtherOneWheneverItBegins) {
  int caught = 0;
  hang_during_start(Duration::zero(), caught);
  for (int micros = 100; micros < 4'000; micros += 97)
    hang_during_start(std::chrono::microseconds(micros), caught);
  EXPECT_GE(caught, 10);
}

TEST(StoreStart, AServerWithADiskThatHangsRegistersAndTellsOfIt) {
  ClusterRig rig(1);
  rig.stop_server(0);
  rig.disks = {"/disk", "/second"};
  simulation::SimDisk& disk = rig.servers[0].node->disk();
  disk.set_capacity("/second", uint64_t{1} << 32);
  rig.start_server(0);
  rig.simulation.run_for(3s);
  rig.stop_server(0);
  const size_t registrations = rig.meta.registrations.size();
  rig.meta.heartbeats.clear();
  disk.set_hung(true, "/second");
  rig.start_server(0);
  rig.simulation.run_for(3s);
  EXPECT_EQ(rig.meta.registrations.size(), registrations + 1);
  ASSERT_FALSE(rig.meta.heartbeats.empty());
  const auto& disks = rig.meta.heartbeats.back().disk_states();
  ASSERT_EQ(disks.size(), 2);
  EXPECT_EQ(disks[0].health(), proto::DiskState::WELL);
  EXPECT_EQ(disks[1].health(), proto::DiskState::FAILED);
  EXPECT_NE(disks[1].reason().find("joins when it answers"), std::string::npos) << disks[1].reason();
  disk.forget_faults();
}

TEST(StoreStart, ADiskThatJoinsLateIsToldInABlockReportAtOnce) {
  ClusterRig rig(1);
  rig.stop_server(0);
  rig.disks = {"/disk", "/second"};
  simulation::SimDisk& disk = rig.servers[0].node->disk();
  for (const std::string& path : rig.disks)
    disk.set_capacity(path, uint64_t{1} << 32);
  rig.start_server(0);
  for (uint64_t stripe = 1; stripe <= 12; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(stripe), chunk_bytes(5000 + kMiB * (stripe % 2), stripe)));
  rig.stop_server(0);
  disk.set_hung(true, "/second");
  rig.start_server(0);
  rig.simulation.run_for(30s);
  EXPECT_LT(rig.store(0).chunks(), 12u);
  rig.meta.reports.clear();
  disk.forget_faults();
  rig.simulation.run_for(5s);
  EXPECT_EQ(rig.store(0).chunks(), 12u);
  ASSERT_EQ(rig.meta.reports.size(), 1u);
  EXPECT_EQ(rig.meta.reports[0].chunks_size(), 12);
  const auto& disks = rig.meta.heartbeats.back().disk_states();
  EXPECT_NE(disks[1].health(), proto::DiskState::FAILED);
  EXPECT_GT(disks[1].chunks(), 0u);
  // It is a disk like any other: small and large chunks are written to it and removed from it.
  const uint64_t before = disks[1].chunks();
  for (uint64_t stripe = 100; stripe < 130; ++stripe)
    KINTSUGI_EXPECT_OK(rig.put(0, chunk_id(stripe), chunk_bytes(5000 + kMiB * (stripe % 2), stripe)));
  rig.simulation.run_for(40s);  // it counts as slow for a while
  for (uint64_t stripe = 130; stripe < 160; ++stripe)
    KINTSUGI_EXPECT_OK(rig.put(0, chunk_id(stripe), chunk_bytes(5000 + kMiB * (stripe % 2), stripe)));
  EXPECT_GT(rig.store(0).disk_reports().at(1).chunks, before);
  for (uint64_t stripe = 1; stripe < 160; stripe += stripe == 12 ? 88 : 1) {
    EXPECT_TRUE(rig.get(0, chunk_id(stripe))) << stripe;
    KINTSUGI_EXPECT_OK(rig.simulation.run(rig.store(0).remove(Context{}, chunk_id(stripe))));
  }
  rig.stop_server(0);
  rig.start_server(0);
  EXPECT_EQ(rig.store(0).chunks(), 0u);
}

/// A store whose first disk hung at its start, with what was on it before.
struct LateRig : StoreRig {
  LateRig() : StoreRig(1, 2) {
    fill_disks(*this, 12);
    chunks = by_disk(*this);
    stop();
    node.disk().set_hung(true, "/d0");
    start();
  }
  void answer() {
    node.disk().set_hung(false, "/d0");
    simulation.run_for(5s);
  }
  std::vector<std::byte> bytes(ChunkId id) const {
    return id.index == 0 ? chunk_bytes(kMiB + id.stripe.value, id.stripe.value)
                         : chunk_bytes(5000, id.stripe.value);
  }
  std::map<uint32_t, std::set<ChunkId>> chunks;
};

TEST(StoreStart, WhatIsOnADiskThatJoinsLateIsMergedWithWhatWasWrittenMeanwhile) {
  LateRig rig;
  // A repair has put half of them elsewhere, and some of those are written anew just when the disk joins.
  std::set<ChunkId> moved;
  for (const ChunkId id : rig.chunks.at(0)) {
    if (id.stripe.value % 2 == 0) continue;
    KINTSUGI_ASSERT_OK(rig.put(id, rig.bytes(id)));
    moved.insert(id);
  }
  ASSERT_FALSE(moved.empty());
  const ChunkId removed = *rig.chunks.at(1).begin();
  KINTSUGI_ASSERT_OK(rig.remove(removed));
  rig.answer();
  rig.simulation.run_for(SurplusCopies::kLookAgain);
  EXPECT_FALSE(rig.store->find(removed));
  for (const auto& [disk, ids] : rig.chunks) {
    for (const ChunkId id : ids) {
      if (id == removed) continue;
      const auto read = rig.get(id);
      ASSERT_TRUE(read) << id << " " << read.error();
      EXPECT_EQ(*read, rig.bytes(id));
    }
  }
  const auto now = by_disk(rig);
  for (const ChunkId id : moved)
    EXPECT_TRUE(now.at(1).contains(id)) << "the copy that users read meanwhile stays";
  for (const std::string& name : all_files(rig, "/d0")) {
    if (const auto file = parse_chunk_file_name(name)) {
      EXPECT_FALSE(moved.contains(file->id)) << "and the other one is gone";
    }
  }
  EXPECT_TRUE(rig.store->take_lost().empty());
  rig.restart();
  EXPECT_EQ(by_disk(rig), now);
}

TEST(StoreStart, ADiskThatHangsAgainWhileItJoinsJoinsLater) {
  for (int micros = 0; micros < 4000; micros += 333) {
    SCOPED_TRACE(micros);
    LateRig rig;
    rig.node.disk().set_hung(false, "/d0");
    rig.simulation.run_for(std::chrono::milliseconds(1000) + std::chrono::microseconds(micros));
    rig.node.disk().set_hung(true, "/d0");
    rig.simulation.run_for(40s);
    for (const ChunkId id : rig.chunks.at(1))
      EXPECT_TRUE(rig.get(id));
    rig.answer();
    EXPECT_EQ(by_disk(rig), rig.chunks);
    EXPECT_EQ(rig.store->known_space().failed_disks, 0u);
  }
}

TEST(StoreStart, ADiskThatFailsWhileItJoinsHasNoChunkAfterwards) {
  LateRig rig;
  const ChunkId busy =
      *std::ranges::find_if(rig.chunks.at(0), [](ChunkId id) { return id.index == 1; });  // a small one
  const auto bytes = rig.bytes(busy);
  // A repair puts one of its chunks onto the other disk, which hangs: whoever joins cannot know yet whose copy is used.
  std::optional<Status> repaired;
  const auto repair = [](LateRig& rig, ChunkId id, const std::vector<std::byte>& bytes,
                         std::optional<Status>& ended) -> asio::awaitable<void> {
    ended = co_await chunkserver::put(*rig.store, *rig.pool, id, bytes);
  };
  rig.node.disk().set_hung(true, "/d1");
  asio::co_spawn(rig.simulation.executor(), repair(rig, busy, bytes, repaired), asio::detached);
  rig.simulation.run_for(12s);
  ASSERT_TRUE(repaired);
  EXPECT_EQ(repaired->code(), Code::kUnavailable);
  rig.answer();
  EXPECT_EQ(by_disk(rig)[0].size(), rig.chunks.at(0).size() - 1);
  KINTSUGI_ASSERT_OK(rig.node.disk().remove_all("/d0"));
  while (rig.store->known_space().failed_disks == 0)
    rig.simulation.run_for(10ms);
  EXPECT_TRUE(by_disk(rig)[0].empty());
  rig.node.disk().set_hung(false, "/d1");
  rig.simulation.run_for(5s);
  EXPECT_FALSE(rig.store->find(busy)) << "nobody could read it";
}

TEST(StoreStart, ADiskOfAnotherServerThatAnswersLateIsLeftAlone) {
  LateRig rig;
  rig.node.disk().set_hung(false, "/d0");
  rig.stop();
  KINTSUGI_ASSERT_OK(rig.node.disk().remove_all("/d0/server_id"));
  rig.options.disks = {"/d0"};
  rig.start();  // it is of a new server now
  rig.stop();
  rig.options.disks = {"/d0", "/d1"};
  rig.node.disk().set_hung(true, "/d0");
  rig.start();
  const auto files = all_files(rig, "/d0");
  rig.answer();
  EXPECT_EQ(rig.store->known_space().failed_disks, 1u);
  EXPECT_EQ(rig.store->chunks(), rig.chunks.at(1).size());
  EXPECT_EQ(all_files(rig, "/d0"), files);
}

TEST(StoreStart, AStoreThatStopsWaitsForNoDiskThatJoinsLater) {
  for (int millis = 0; millis < 3000; millis += 250) {
    LateRig rig;
    rig.node.disk().set_hung(false, "/d0");
    rig.simulation.run_for(std::chrono::milliseconds(millis));
    rig.restart();
    EXPECT_EQ(by_disk(rig), rig.chunks);
  }
}

TEST(StoreStart, ADiskThatHangsIsNoReasonToMakeANewIdentity) {
  StoreRig rig(1, 2);
  fill_disks(rig, 4);
  const ServerId id = rig.store->identity().server;
  rig.stop();
  KINTSUGI_ASSERT_OK(rig.node.disk().remove_all("/d1"));
  rig.node.disk().set_hung(true, "/d0");
  EXPECT_EQ(rig.try_start().code(), Code::kUnavailable);
  rig.node.disk().set_hung(false, "/d0");
  rig.stop();
  rig.start();
  EXPECT_EQ(rig.store->identity().server, id);
}

TEST(StoreStart, ADiskThatHangsWhenTheServerJoinsItsClusterIsDroppedAlone) {
  StoreRig rig(1, 3);
  fill_disks(rig, 4);
  rig.node.disk().set_hung(true, "/d1");
  const TimePoint before = rig.simulation.now();
  KINTSUGI_EXPECT_OK(rig.simulation.run(rig.store->join_cluster("blue", 7)));
  EXPECT_LT(rig.simulation.now() - before, 15s);
  EXPECT_EQ(rig.store->known_space().failed_disks, 1u);
  // One that hangs and is bound already costs nothing.
  rig.node.disk().set_hung(true, "/d2");
  rig.simulation.run_for(15s);
  const TimePoint again = rig.simulation.now();
  KINTSUGI_EXPECT_OK(rig.simulation.run(rig.store->join_cluster("blue", 7)));
  EXPECT_LT(rig.simulation.now() - again, 1s);
  EXPECT_EQ(rig.store->known_space().failed_disks, 1u);
  rig.node.disk().forget_faults();
  rig.restart();
  EXPECT_EQ(rig.store->known_space().failed_disks, 0u);
  EXPECT_EQ(rig.store->chunks(), 8u);
  EXPECT_EQ(rig.store->identity().cluster, "blue");
}

TEST(StoreStart, DisksAreReadSideBySide) {
  Duration times[2];
  for (int i = 0; i < 2; ++i) {
    StoreRig rig(1, i == 0 ? 1 : 8);
    fill_disks(rig, i == 0 ? 8 : 64);
    rig.stop();
    for (const std::string& disk : rig.options.disks)
      rig.node.disk().set_slow(1000, disk);
    times[i] = time_of_start(rig);
  }
  EXPECT_LT(times[1], 2 * times[0]);
}

/// Gives all files of the disk the names that older versions gave them. REQUIRES: the store is stopped.
void name_as_before(StoreRig& rig, const std::string& disk) {
  for (const std::string& directory : rig.files(disk + "/chunks")) {
    for (const std::string& name : rig.files(disk + "/chunks/" + directory)) {
      const std::string path = disk + "/chunks/" + directory + "/";
      const std::string old = chunk_file_name(parse_chunk_file_name(name)->id);
      KINTSUGI_ASSERT_OK(rig.simulation.run(rig.node.disk().view().rename(path + name, path + old)));
    }
  }
}

size_t old_names(StoreRig& rig, const std::string& disk) {
  size_t count = 0;
  for (const std::string& directory : rig.files(disk + "/chunks")) {
    for (const std::string& name : rig.files(disk + "/chunks/" + directory))
      count += !parse_chunk_file_name(name)->info;
  }
  return count;
}

void expect_large_chunks(StoreRig& rig, uint64_t chunks) {
  EXPECT_EQ(rig.store->chunks(), 2 * chunks);
  for (uint64_t stripe = 1; stripe <= chunks; ++stripe) {
    const auto bytes = rig.get(chunk_id(stripe));
    ASSERT_TRUE(bytes) << stripe << ": " << bytes.error();
    EXPECT_EQ(*bytes, chunk_bytes(kMiB + stripe, stripe));
  }
}

TEST(StoreStart, OpensNoChunkFile) {
  StoreRig rig;
  fill_disks(rig, 100);
  rig.stop();
  const uint64_t before = rig.node.disk().counters().reads;
  rig.start();
  EXPECT_LT(rig.node.disk().counters().reads - before, 10u);
  expect_large_chunks(rig, 100);
  for (const ChunkInfo& chunk : rig.store->list({}, 1000)) {
    const uint64_t stripe = chunk.id.stripe.value;
    const auto bytes = chunk.id.index == 0 ? chunk_bytes(kMiB + stripe, stripe) : chunk_bytes(5000, stripe);
    EXPECT_EQ(chunk, (ChunkInfo{chunk.id, bytes.size(), crc32c(bytes)}));
  }
}

TEST(StoreStart, FilesThatAnOlderVersionNamedAreNamedAnew) {
  StoreRig rig;
  fill_disks(rig, 20);
  rig.stop();
  name_as_before(rig, "/d0");
  ASSERT_EQ(old_names(rig, "/d0"), 20u);
  // Whatever a loss of power leaves of the new names.
  for (int start = 0; start < 3; ++start) {
    rig.start();
    EXPECT_EQ(old_names(rig, "/d0"), 0u);
    expect_large_chunks(rig, 20);
    EXPECT_TRUE(rig.store->take_lost().empty());
    rig.node.crash();
    rig.stop();
    rig.node.restart();
  }
  rig.start();
  for (uint64_t stripe = 1; stripe <= 10; ++stripe)
    KINTSUGI_EXPECT_OK(rig.remove(chunk_id(stripe)));
  rig.crash_and_restart();
  EXPECT_EQ(rig.store->chunks(), 30u);
}

TEST(StoreStart, FilesOnAReadOnlyDiskKeepTheirOldNamesAndAreRead) {
  StoreRig rig;
  fill_disks(rig, 20);
  rig.stop();
  name_as_before(rig, "/d0");
  rig.node.disk().set_read_only(true, "/d0");
  rig.start();
  EXPECT_EQ(old_names(rig, "/d0"), 20u);
  expect_large_chunks(rig, 20);
  rig.simulation.run_for(2min);  // in which the walk looks at each
  EXPECT_TRUE(rig.store->take_lost().empty());
  rig.node.disk().set_read_only(false, "/d0");
  rig.restart();
  EXPECT_EQ(old_names(rig, "/d0"), 0u);
  expect_large_chunks(rig, 20);
}

TEST(StoreStart, AFileThatIsNotWhatItsNameSaysIsToldLostAndServedToNobody) {
  StoreRig rig;
  fill_disks(rig, 4);
  rig.stop();
  const std::string path = chunk_file(rig.node.disk(), "/d0", chunk_id(2));
  const std::string directory = path.substr(0, path.rfind('/') + 1);
  ChunkInfo lie = *parse_chunk_file_name(path.substr(directory.size()))->info;
  lie.crc ^= 1;
  KINTSUGI_ASSERT_OK(
      rig.simulation.run(rig.node.disk().view().rename(path, directory + chunk_file_name(lie))));
  // A file of an older version whose header is damaged is found at the start, as before.
  const std::string third = chunk_file(rig.node.disk(), "/d0", chunk_id(3));
  const std::string old = third.substr(0, third.rfind('/') + 1) + chunk_file_name(chunk_id(3));
  KINTSUGI_ASSERT_OK(rig.simulation.run(rig.node.disk().view().rename(third, old)));
  KINTSUGI_ASSERT_OK(rig.node.disk().flip_bit(old, 20));
  rig.start();
  EXPECT_EQ(rig.store->take_lost().size(), 1u);
  EXPECT_EQ(rig.get(chunk_id(3)).error().code(), Code::kNotFound);
  EXPECT_EQ(rig.get(chunk_id(2)).error().code(), Code::kCorrupt);
  EXPECT_EQ(rig.get(chunk_id(2)).error().code(), Code::kNotFound);
  EXPECT_EQ(rig.store->take_lost().size(), 1u);
  rig.simulation.run_for(1s);
  EXPECT_EQ(rig.files("/d0/quarantine").size(), 2u) << "nothing is deleted";
  for (uint64_t stripe : {1, 4})
    EXPECT_TRUE(rig.get(chunk_id(stripe)));
  for (uint64_t stripe : {2, 3})
    KINTSUGI_EXPECT_OK(rig.put(chunk_id(stripe), chunk_bytes(kMiB + stripe, stripe)));
  rig.restart();
  expect_large_chunks(rig, 4);
}

}  // namespace
}  // namespace kintsugi::chunkserver
