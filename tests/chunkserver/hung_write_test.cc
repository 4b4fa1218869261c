// Writes that are under way when their disk begins to hang: they end as soon as that is known, and nothing of them is there later.
#include "tests/chunkserver/cluster_rig.h"
#include "tests/chunkserver/store_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

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

/// A disk of which some calls take as long as they are held up: syncs of directories of chunks, and removals.
class HeldUpDisk final : public runtime::Disk {
 public:
  HeldUpDisk(runtime::Disk& disk, const runtime::Runtime& runtime) : disk_(disk), changed_(runtime) {}

  void hold_up(bool syncs, bool removals) {
    syncs_held_ = syncs;
    removals_held_ = removals;
    changed_.notify_all();
  }

  asio::awaitable<Result<std::unique_ptr<runtime::File>>> open(std::string path,
                                                               runtime::OpenMode mode) override {
    return disk_.open(std::move(path), mode);
  }
  asio::awaitable<Status> rename(std::string from, std::string to) override {
    return disk_.rename(std::move(from), std::move(to));
  }
  asio::awaitable<Status> remove(std::string path) override {
    while (removals_held_)
      co_await changed_.wait();
    co_return co_await disk_.remove(std::move(path));
  }
  asio::awaitable<Status> make_directory(std::string path) override {
    return disk_.make_directory(std::move(path));
  }
  asio::awaitable<Status> sync_directory(std::string path) override {
    while (syncs_held_ && path.starts_with("/d0/chunks/"))
      co_await changed_.wait();
    co_return co_await disk_.sync_directory(std::move(path));
  }
  asio::awaitable<Result<std::vector<std::string>>> list(std::string path) override {
    return disk_.list(std::move(path));
  }
  asio::awaitable<Result<runtime::DiskSpace>> space(std::string path) override {
    return disk_.space(std::move(path));
  }
  asio::awaitable<Result<runtime::FileAttributes>> attributes(std::string path) override {
    return disk_.attributes(std::move(path));
  }
  asio::awaitable<Result<std::unique_ptr<runtime::FileLock>>> lock(std::string path) override {
    return disk_.lock(std::move(path));
  }

 private:
  runtime::Disk& disk_;
  runtime::Event changed_;
  bool syncs_held_ = false, removals_held_ = false;
};

TEST(UndoneWrites, TakeNothingFromAWriteThatCameAfterThem) {
  QuietLog quiet;
  simulation::Simulation simulation(1);
  simulation::SimNode node(simulation, "server");
  const runtime::Runtime own = node.runtime();
  HeldUpDisk disk(own.disk, own);
  const runtime::Runtime runtime{own.executor, own.clock, own.network, disk, own.random};
  runtime::BufferPool pool(runtime, 16, kTestFrameBytes);
  StoreOptions options;
  options.disks = {"/d0"};
  ChunkStore store(runtime, options);
  KINTSUGI_ASSERT_OK(simulation.run(store.start()));
  const auto bytes = chunk_bytes(kLarge, 7);
  const auto write = [&](std::optional<Status>& ended) -> asio::awaitable<void> {
    ended = co_await put(store, pool, chunk_id(7), bytes);
  };
  // The first write is given up when its file has its name already, and the name is not synced yet.
  std::optional<Status> first, second;
  disk.hold_up(true, false);
  asio::co_spawn(simulation.executor(), write(first), asio::detached);
  simulation.run_for(kKnownAfter);
  ASSERT_TRUE(node.disk().exists(chunk_file(node.disk(), "/d0", chunk_id(7))));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->code(), Code::kUnavailable);
  // The disk answers, but for the removal of what nobody waits for any more.
  disk.hold_up(false, true);
  simulation.run_for(100ms);
  asio::co_spawn(simulation.executor(), write(second), asio::detached);
  simulation.run_for(1s);
  disk.hold_up(false, false);
  simulation.run_for(3s);
  ASSERT_TRUE(second);
  KINTSUGI_EXPECT_OK(*second);
  const auto read = simulation.run(get(store, pool, chunk_id(7)));
  EXPECT_TRUE(read && *read == bytes) << "what was acknowledged is there";
  EXPECT_TRUE(node.disk().exists(chunk_file(node.disk(), "/d0", chunk_id(7))));
  simulation.run(store.stop());
}

}  // namespace
}  // namespace kintsugi::chunkserver
