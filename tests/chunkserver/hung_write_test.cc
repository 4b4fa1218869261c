// Writes that are under way when their disk begins to hang: they end as soon as that is known, and nothing of them is there later.
#include "tests/chunkserver/cluster_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

constexpr size_t kMiB = 1 << 20;
constexpr size_t kSmall = 40'000, kLarge = 3 * kMiB;
/// A call begins within a second after the disk began to hang; it is old enough kHungAfter later, and a look finds it within a second.
constexpr Duration kKnownAfter = DiskHealth::kHungAfter + 3s;

struct Write {
  ChunkId id;
  std::vector<std::byte> bytes;
  std::optional<Status> ended;
};

asio::awaitable<void> carry_out(ClusterRig& rig, Write& write) {
  write.ended = co_await ClusterRig::put_chunk(rig, 0, write.id, write.bytes);
}

void begin(ClusterRig& rig, Write& write) {
  asio::co_spawn(rig.simulation.executor(), carry_out(rig, write), asio::detached);
}

/// Lets time pass until all have ended, and returns how long that took.
Duration wait_for(ClusterRig& rig, const std::vector<std::unique_ptr<Write>>& writes) {
  const TimePoint began = rig.simulation.now();
  const auto all_ended = [&] {
    return std::ranges::all_of(writes, [](const auto& write) { return write->ended.has_value(); });
  };
  while (!all_ended() && rig.simulation.now() - began < 1min)
    rig.simulation.run_for(100ms);
  return rig.simulation.now() - began;
}

Duration time_of_a_put(ClusterRig& rig, size_t bytes) {
  const TimePoint began = rig.simulation.now();
  KINTSUGI_EXPECT_OK(rig.put(0, chunk_id(1), chunk_bytes(bytes, 1)));
  return rig.simulation.now() - began;
}

class HungWrites : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, HungWrites, testing::Values(kSmall, kLarge),
                         [](const auto& info) { return info.param == kSmall ? "Small" : "Large"; });

TEST_P(HungWrites, EndAsSoonAsTheDiskIsKnownToHangAndLeaveNothing) {
  ClusterRig rig(1);
  simulation::SimDisk& disk = rig.servers[0].node->disk();
  const Duration takes = time_of_a_put(rig, GetParam());
  const size_t free = rig.servers[0].server->buffers().free();
  std::vector<std::unique_ptr<Write>> all;
  constexpr int kMoments = 40;
  for (int moment = 0; moment < kMoments; ++moment) {
    SCOPED_TRACE(moment);
    std::vector<std::unique_ptr<Write>> one(1);
    one[0] = std::make_unique<Write>(Write{chunk_id(100 + static_cast<uint64_t>(moment)),
                                           chunk_bytes(GetParam(), static_cast<uint64_t>(moment)),
                                           {}});
    begin(rig, *one[0]);
    rig.simulation.run_for(moment * takes / (kMoments - 2));
    disk.set_hung(true, "/disk");
    EXPECT_LT(wait_for(rig, one), kKnownAfter);
    ASSERT_TRUE(one[0]->ended);
    const bool is_there = one[0]->ended->ok();
    if (!is_there) {
      EXPECT_EQ(one[0]->ended->code(), Code::kUnavailable) << *one[0]->ended;
    }
    disk.set_hung(false, "/disk");
    rig.simulation.run_for(2s);
    EXPECT_EQ(rig.store(0).find(one[0]->id).has_value(), is_there);
    EXPECT_EQ(rig.store(0).open_writers(), 0u);
    EXPECT_EQ(rig.servers[0].server->buffers().free(), free) << "the disk has given back what it was given";
    EXPECT_TRUE(disk.list_now("/disk/tmp").empty());
    all.push_back(std::move(one[0]));
  }
  EXPECT_TRUE(all.back()->ended->ok()) << "the last one was through";
  EXPECT_GT(std::ranges::count_if(all, [](const auto& write) { return !write->ended->ok(); }), kMoments / 5);
  rig.stop_server(0);
  rig.start_server(0);
  for (const auto& write : all) {
    EXPECT_EQ(rig.store(0).find(write->id).has_value(), write->ended->ok()) << write->id;
    if (write->ended->ok()) {
      EXPECT_EQ(*rig.get(0, write->id), write->bytes);
    }
  }
}

TEST_P(HungWrites, ThatWaitForOneAnotherAndForBuffersAllEnd) {
  ClusterRig rig(1);
  const Duration takes = time_of_a_put(rig, GetParam());
  const size_t free = rig.servers[0].server->buffers().free();
  std::vector<std::unique_ptr<Write>> writes;
  for (uint64_t i = 0; i < 60; ++i) {
    writes.push_back(std::make_unique<Write>(Write{chunk_id(100 + i), chunk_bytes(GetParam(), i), {}}));
    begin(rig, *writes.back());
  }
  rig.simulation.run_for(takes / 2);
  rig.servers[0].node->disk().set_hung(true, "/disk");
  EXPECT_LT(wait_for(rig, writes), kKnownAfter);
  rig.servers[0].node->disk().set_hung(false, "/disk");
  rig.simulation.run_for(5s);
  for (const auto& write : writes) {
    ASSERT_TRUE(write->ended);
    EXPECT_EQ(rig.store(0).find(write->id).has_value(), write->ended->ok()) << write->id;
  }
  EXPECT_EQ(rig.servers[0].server->buffers().free(), free);
  EXPECT_EQ(rig.store(0).open_writers(), 0u);
  KINTSUGI_EXPECT_OK(rig.put(0, chunk_id(500), chunk_bytes(GetParam(), 500)));
}

TEST_P(HungWrites, OfAChunkThatReplacesAnEqualOneLeaveOneOfThem) {
  ClusterRig rig(1);
  const Duration takes = time_of_a_put(rig, GetParam());
  const auto bytes = chunk_bytes(GetParam(), 1);
  for (int moment = 0; moment < 20; ++moment) {
    SCOPED_TRACE(moment);
    std::vector<std::unique_ptr<Write>> again(1);
    again[0] = std::make_unique<Write>(Write{chunk_id(1), bytes, {}});
    begin(rig, *again[0]);
    rig.simulation.run_for(moment * takes / 18);
    rig.servers[0].node->disk().set_hung(true, "/disk");
    EXPECT_LT(wait_for(rig, again), kKnownAfter);
    rig.servers[0].node->disk().set_hung(false, "/disk");
    rig.simulation.run_for(2s);
    ASSERT_TRUE(rig.store(0).find(chunk_id(1)));
    EXPECT_EQ(*rig.get(0, chunk_id(1)), bytes);
  }
  rig.stop_server(0);
  rig.start_server(0);
  EXPECT_EQ(*rig.get(0, chunk_id(1)), bytes);
}

TEST_P(HungWrites, ASecondOneOfTheSameChunkIsToldAtOnceThatTheFirstHangs) {
  int held_up = 0;
  for (int moment = 0; moment < 20; ++moment) {
    SCOPED_TRACE(moment);
    ClusterRig rig(1);
    rig.stop_server(0);
    rig.disks = {"/disk", "/second"};
    simulation::SimDisk& disk = rig.servers[0].node->disk();
    for (const std::string& path : rig.disks)
      disk.set_capacity(path, uint64_t{1} << 40);
    rig.start_server(0);
    const Duration takes = time_of_a_put(rig, GetParam());
    std::vector<std::unique_ptr<Write>> writes(1);
    writes[0] = std::make_unique<Write>(Write{chunk_id(7), chunk_bytes(GetParam(), 7), {}});
    begin(rig, *writes[0]);
    rig.simulation.run_for(moment * takes / 20);
    for (const std::string& path : rig.disks)
      disk.set_hung(true, path);
    EXPECT_LT(wait_for(rig, writes), kKnownAfter);
    if (writes[0]->ended->ok()) {
      disk.forget_faults();
      continue;
    }
    // The disks answer one after the other; once the first write's does, the chunk can be written.
    if (moment % 2 == 0) std::ranges::reverse(rig.disks);
    for (const std::string& path : rig.disks) {
      disk.set_hung(false, path);
      rig.simulation.run_for(100ms);
      writes[0]->ended.reset();
      begin(rig, *writes[0]);
      EXPECT_LT(wait_for(rig, writes), 2s) << path;
      if (writes[0]->ended->ok()) continue;
      EXPECT_EQ(writes[0]->ended->code(), Code::kUnavailable);
      EXPECT_EQ(path, rig.disks.front());
      ++held_up;
    }
    EXPECT_EQ(*rig.get(0, chunk_id(7)), chunk_bytes(GetParam(), 7));
  }
  EXPECT_GT(held_up, 0);
}

}  // namespace
}  // namespace kintsugi::chunkserver
