// Bit rot and disks that fail: wrong bytes are never returned, and what is bad is replaced.
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

/// Places of the chunks of the file's first stripe, by index.
std::vector<size_t> places(SimulatedCluster& cluster, const std::string& path) {
  std::vector<size_t> servers;
  const auto stripes = cluster.stripes_of(path);
  (void)cluster.server_id(0);  // asks who is who
  for (const auto& chunk : stripes.at(0).chunks()) {
    const ServerId id{chunk.server_id()};
    servers.push_back(cluster.server_of(id).value());
  }
  return servers;
}

StripeId first_stripe(SimulatedCluster& cluster, const std::string& path) {
  return StripeId{cluster.stripes_of(path).at(0).stripe_id()};
}

/// A repair of this chunk has succeeded.
Status repaired(SimulatedCluster& cluster, ChunkId chunk) {
  for (const auto& record : cluster.repair_history())
    if (record.outcome() == proto::RepairRecord::DONE && record.stripe_id() == chunk.stripe.value &&
        record.index() == chunk.index)
      return {};
  return {Code::kUnavailable, fmt::format("chunk {} was not repaired", chunk)};
}

TEST(DiskFaults, ARottenChunkIsReadAroundReportedAndRepaired) {
  for (const uint64_t seed : seeds({1, 2, 3, 4})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/file", kWholeStripe));
    const auto servers = places(cluster, "/file");
    const ChunkId rotten{first_stripe(cluster, "/file"), static_cast<uint32_t>(cluster.random_below(6))};
    ASSERT_TRUE(cluster.rot(servers[rotten.index], rotten));
    KINTSUGI_EXPECT_OK(cluster.check("/file"));
    KINTSUGI_EXPECT_OK(cluster.wait_until([&] { return repaired(cluster, rotten); }, 1min));
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    // The repaired chunk carries the file once three of the others are gone.
    const auto now = places(cluster, "/file");
    for (uint32_t i = 1; i <= 3; ++i)
      cluster.crash_chunkserver(now[(rotten.index + i) % 9], Crash::kKill);
    KINTSUGI_EXPECT_OK(cluster.check("/file"));
  }
}

TEST(DiskFaults, ARepairFindsItsRottenHelpersAndDoesWithoutThem) {
  for (const uint64_t seed : seeds({11, 12, 13, 14})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/file", kWholeStripe));
    const auto servers = places(cluster, "/file");
    const StripeId stripe = first_stripe(cluster, "/file");
    // One chunk lost and two rotten: exactly six good ones are left, of eight that look good.
    const auto first = static_cast<uint32_t>(cluster.random_below(9));
    ASSERT_TRUE(cluster.rot(servers[(first + 1) % 9], {stripe, (first + 1) % 9}));
    ASSERT_TRUE(cluster.rot(servers[(first + 2) % 9], {stripe, (first + 2) % 9}));
    cluster.crash_chunkserver(servers[first], Crash::kKill);
    KINTSUGI_EXPECT_OK(cluster.wait_until([&] { return repaired(cluster, {stripe, first}); }, 5min));
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(DiskFaults, ADiskThatFailsIsDroppedAloneAndItsChunksAreRepaired) {
  for (const uint64_t seed : seeds({21, 22, 23})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11, .disks = 2});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 4; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), 9'000'000));
    const size_t server = cluster.pick(1).front();
    cluster.disk(server).break_disk("/disk-0");
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    for (int i = 4; i < 12; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), 9'000'000));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    const auto alive = cluster.liveness(server);
    ASSERT_TRUE(alive) << alive.error();
    EXPECT_EQ(*alive, proto::ServerState::ALIVE) << "the other disk still serves";
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

/// Repairs of all these chunks have succeeded.
Status all_repaired(SimulatedCluster& cluster, const std::vector<ChunkId>& chunks) {
  for (const ChunkId chunk : chunks)
    KINTSUGI_TRY(repaired(cluster, chunk));
  return {};
}

TEST(DiskFaults, ADirectoryThatIsRemovedUnderItsServerIsAFailedDiskWithinSeconds) {
  for (const uint64_t seed : seeds({41, 42, 43})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 4; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), 9'000'000));
    const size_t server = places(cluster, "/file-0").at(0);
    const std::vector<ChunkId> chunks = cluster.chunk_files(server);
    KINTSUGI_ASSERT_OK(cluster.disk(server).remove_all("/disk-0"));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until([&] { return all_repaired(cluster, chunks); }, 15s));
    for (int i = 4; i < 8; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), 9'000'000));
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    const auto state = cluster.liveness(server);
    ASSERT_TRUE(state) << state.error();
    EXPECT_EQ(*state, proto::ServerState::ALIVE) << "it has only lost its disk";
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(DiskFaults, ChunkFilesThatAreDeletedAreMissedBeforeAnybodyReadsThem) {
  for (const uint64_t seed : seeds({51, 52})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 4; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kWholeStripe));
    const size_t server = places(cluster, "/file-0").at(8);  // parity: no read asks for it
    const std::vector<ChunkId> chunks = cluster.chunk_files(server);
    ASSERT_FALSE(chunks.empty());
    for (const std::string& directory : cluster.disk(server).list_now("/disk-0/chunks"))
      KINTSUGI_ASSERT_OK(cluster.disk(server).remove_all("/disk-0/chunks/" + directory));
    KINTSUGI_EXPECT_OK(cluster.wait_until([&] { return all_repaired(cluster, chunks); }, 2min));
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(DiskFaults, AServerOneOfWhoseDisksHangsStaysAliveAndLosesNothing) {
  for (const uint64_t seed : seeds({61, 62, 63})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11, .disks = 2, .repair_delay = 5min});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 4; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kWholeStripe));
    const size_t server = places(cluster, "/file-0").at(0);
    const std::vector<ChunkId> chunks = cluster.chunk_files(server);
    cluster.disk(server).set_hung(true, "/disk-1");
    cluster.run_for(30s);
    const auto state = cluster.liveness(server);
    ASSERT_TRUE(state) << state.error();
    EXPECT_EQ(*state, proto::ServerState::ALIVE) << "it has another disk";
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    for (int i = 4; i < 8; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kWholeStripe));
    cluster.run_for(60s);
    EXPECT_TRUE(cluster.repair_history().empty()) << "what hangs is not lost";
    cluster.disk(server).set_hung(false, "/disk-1");
    cluster.run_for(10s);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    const std::vector<ChunkId> after = cluster.chunk_files(server);
    for (const ChunkId chunk : chunks)
      EXPECT_TRUE(std::ranges::find(after, chunk) != after.end()) << "nothing of it was deleted: " << chunk;
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(DiskFaults, WhatLiesOnADiskThatHangsForLongIsRepairedElsewhere) {
  for (const uint64_t seed : seeds({71, 72, 73})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11, .disks = 2, .repair_delay = 20s});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 6; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kWholeStripe));
    const size_t server = places(cluster, "/file-0").at(0);
    uint32_t hung = 0;
    std::vector<ChunkId> chunks;
    for (const chunkserver::ListedChunk& chunk : cluster.store(server)->list_with_disks({}, 1000)) {
      if (chunks.empty()) hung = chunk.disk;
      if (chunk.disk == hung) chunks.push_back(chunk.info.id);
    }
    ASSERT_FALSE(chunks.empty());
    cluster.disk(server).set_hung(true, "/disk-" + std::to_string(hung));
    KINTSUGI_EXPECT_OK(cluster.wait_until([&] { return all_repaired(cluster, chunks); }, 3min));
    const auto alive = cluster.liveness(server);
    ASSERT_TRUE(alive) << alive.error();
    EXPECT_EQ(*alive, proto::ServerState::ALIVE);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    cluster.disk(server).forget_faults();
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(DiskFaults, ADiskThatHangsAtTheStartOfItsServerJoinsWhenItAnswers) {
  for (const uint64_t seed : seeds({101, 102, 103})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11, .disks = 2});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 4; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kWholeStripe));
    const size_t server = places(cluster, "/file-0").at(0);
    cluster.crash_chunkserver(server, Crash::kKill);
    cluster.disk(server).set_hung(true, "/disk-1");
    cluster.restart_chunkserver(server);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    EXPECT_EQ(cluster.store(server)->known_space().failed_disks, 1u);
    cluster.disk(server).set_hung(false, "/disk-1");
    cluster.run_for(10s);
    EXPECT_EQ(cluster.store(server)->known_space().failed_disks, 0u);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    // It is written to, and what is on it is read.
    for (int i = 4; i < 12; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kWholeStripe));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(DiskFaults, WhatIsRemovedWhileADiskHangsIsGoneSoonAfterItAnswers) {
  for (const bool starts : {false, true}) {
    for (const uint64_t seed : seeds({121, 122, 123})) {
      SCOPED_TRACE(starts ? "it hangs when its server starts" : "it hangs while its server runs");
      SimulatedCluster cluster({.seed = seed, .chunkservers = 11, .disks = 2, .repair_delay = 10min});
      KINTSUGI_ASSERT_OK(cluster.start());
      for (int i = 0; i < 4; ++i)
        KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kWholeStripe));
      const size_t server = places(cluster, "/file-0").at(0);
      if (starts) cluster.crash_chunkserver(server, Crash::kKill);
      for (const char* disk : {"/disk-0", "/disk-1"})
        cluster.disk(server).set_hung(!starts || disk == std::string("/disk-1"), disk);
      if (starts) cluster.restart_chunkserver(server);
      cluster.run_for(30s);
      for (int i = 0; i < 4; ++i)
        KINTSUGI_EXPECT_OK(cluster.remove("/file-" + std::to_string(i)));
      cluster.run_for(30s);
      for (const char* disk : {"/disk-0", "/disk-1"})
        cluster.disk(server).set_hung(false, disk);
      cluster.run_for(2min);
      EXPECT_EQ(cluster.chunk_files(server).size(), 0u) << "no later report is waited for";
      KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks());
    }
  }
}

TEST(DiskFaults, WhatOnlyDisksHaveThatJoinLateCanBeReadWhenTheyAnswer) {
  for (const uint64_t seed : seeds({111, 112, 113})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 9, .disks = 2});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 6; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kWholeStripe));
    // More disks than the code bears: nothing of them can be repaired.
    for (size_t server = 0; server < 6; ++server) {
      cluster.crash_chunkserver(server, Crash::kKill);
      cluster.disk(server).set_hung(true, "/disk-0");
      cluster.restart_chunkserver(server);
    }
    cluster.run_for(2min);
    for (size_t server = 0; server < 6; ++server)
      cluster.disk(server).set_hung(false, "/disk-0");
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks());
  }
}

TEST(DiskFaults, AFileThatIsWrittenToADiskThatBeginsToHangIsWrittenElsewhereAsSoonAsThatIsKnown) {
  Duration longest{};
  for (const uint64_t seed : seeds({91, 92, 93, 94, 95, 96})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11, .disks = 2, .repair_delay = 5min});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/before", kWholeStripe));
    const TimePoint began = cluster.simulation().now();
    const auto writing = cluster.start_put("/file", 4 * kWholeStripe);
    cluster.run_for(cluster.random_time(1ms, 40ms));
    for (const size_t server : cluster.pick(2))
      cluster.disk(server).set_hung(true, cluster.random_below(2) == 0 ? "/disk-0" : "/disk-1");
    KINTSUGI_EXPECT_OK(cluster.finish(writing));
    longest = std::max(longest, cluster.simulation().now() - began);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    cluster.heal();
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks());
  }
  EXPECT_LT(longest, 16s);
}

TEST(DiskFaults, AChunkThatItsDiskCannotReadIsRepairedAndTheDiskStays) {
  for (const uint64_t seed : seeds({81, 82, 83})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 4; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kWholeStripe));
    const size_t server = places(cluster, "/file-0").at(0);
    const ChunkId bad{first_stripe(cluster, "/file-0"), 0};
    ASSERT_TRUE(cluster.spoil(server, bad));
    for (int reads = 0; reads < 10; ++reads)
      KINTSUGI_EXPECT_OK(cluster.check("/file-0"));
    KINTSUGI_EXPECT_OK(cluster.wait_until([&] { return repaired(cluster, bad); }, 1min));
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    EXPECT_EQ(cluster.repair_history().size(), 1u) << "the other chunks of the disk are well";
    EXPECT_EQ(cluster.store(server)->known_space().failed_disks, 0u);
  }
}

TEST(DiskFaults, OperationsThatFailOnceInAWhileAreSurvived) {
  for (const uint64_t seed : seeds({31, 32, 33})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 6; ++i) {
      for (const size_t server : cluster.pick(2)) {
        const DiskOp op = std::vector{DiskOp::kWrite, DiskOp::kSync, DiskOp::kRead, DiskOp::kRename}.at(
            cluster.random_below(4));
        cluster.disk(server).fail_next(1, Code::kIoError, "/", op);
      }
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), 7'000'000));
      KINTSUGI_EXPECT_OK(cluster.check_contents());
    }
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

}  // namespace
}  // namespace kintsugi::simulation
