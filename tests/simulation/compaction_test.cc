// Files whose bytes lie badly are written anew by repair managers, whatever fails and whoever writes meanwhile.
#include "client/lib/files/open_files.h"
#include "metaserver/repair/compactions.h"
#include "tests/expect_ok.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

using Bytes = std::vector<std::byte>;

uint64_t make_file(SimulatedCluster& cluster, const std::string& path) {
  client::MemorySource nothing({});
  const auto made = cluster.run(cluster.client().write(path, nothing));
  KINTSUGI_ASSERT(made);
  return made->inode();
}

Bytes random_content(SimulatedCluster& cluster, uint64_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(cluster.random().next());
  return bytes;
}

asio::awaitable<Status> read_into(client::OpenFile& file, uint64_t offset, Bytes& into) {
  KINTSUGI_CO_ASSIGN(const size_t filled, co_await file.read({}, offset, into));
  into.resize(filled);
  co_return Status{};
}

/// Writes random bytes there, to the file and to what it should be.
Status write(SimulatedCluster& cluster, client::OpenFile& file, Bytes& model, uint64_t offset,
             uint64_t bytes) {
  const Bytes written = random_content(cluster, bytes);
  std::ranges::copy(written, model.begin() + static_cast<ptrdiff_t>(offset));
  return cluster.run(file.write({}, offset, written));
}

Status write_some(SimulatedCluster& cluster, client::OpenFile& file, Bytes& model) {
  const uint64_t offset = cluster.random_below(model.size() - 20'000);
  return write(cluster, file, model, offset, 1 + cluster.random_below(20'000));
}

/// Where a file lies, as the metaserver has stored it.
struct Layout {
  size_t extents = 0;
  std::set<uint64_t> stripes;
};

Layout layout_of(SimulatedCluster& cluster, const std::string& path) {
  Layout layout;
  const auto where = cluster.run(cluster.client().extents(path));
  EXPECT_TRUE(where) << where.error();
  if (!where) return layout;
  layout.extents = static_cast<size_t>(where->extents_size());
  for (const proto::Extent& extent : where->extents())
    layout.stripes.insert(extent.stripe_id());
  return layout;
}

/// A file of this size of which blocks of 4 KiB were overwritten at random, by a client that is gone. Returns what it holds.
Bytes scatter(SimulatedCluster& cluster, const std::string& path, uint64_t size, size_t blocks) {
  const uint64_t inode = make_file(cluster, path);
  auto files = cluster.client().open_files();
  auto opened = cluster.run(files->open({}, inode));
  KINTSUGI_ASSERT(opened);
  client::OpenFile& file = (*opened)->file();
  Bytes model = random_content(cluster, size);
  KINTSUGI_EXPECT_OK(cluster.run(file.write({}, 0, model)));
  KINTSUGI_EXPECT_OK(cluster.run((*opened)->sync({})));
  for (size_t i = 0; i < blocks; ++i)
    KINTSUGI_EXPECT_OK(write(cluster, file, model, cluster.random_below(size / 4096) * 4096, 4096));
  KINTSUGI_EXPECT_OK(cluster.run((*opened)->close({}, true)));
  opened->reset();
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
  return model;
}

repair_manager::CompactionCounts counts(SimulatedCluster& cluster, size_t manager = 0) {
  repair_manager::Compactor* compactor = cluster.compactor_of(manager);
  return compactor ? compactor->counts() : repair_manager::CompactionCounts{};
}

void expect_content(SimulatedCluster& cluster, const std::string& path, const Bytes& model) {
  const auto found = cluster.get(path);
  ASSERT_TRUE(found) << found.error();
  EXPECT_TRUE(*found == model) << path;
}

TEST(Compaction, WritesScatteredBytesAnewWithinAMinuteAndNobodyNotices) {
  SimulatedCluster cluster({.seed = 7});
  KINTSUGI_ASSERT_OK(cluster.start());
  const uint64_t inode = make_file(cluster, "/file");
  auto files = cluster.client().open_files();
  auto opened = cluster.run(files->open({}, inode));
  ASSERT_TRUE(opened) << opened.error();
  client::OpenFile& file = (*opened)->file();
  Bytes model = random_content(cluster, 16 << 20);
  KINTSUGI_ASSERT_OK(cluster.run(file.write({}, 0, model)));
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->sync({})));
  const Layout at_first = layout_of(cluster, "/file");
  for (int i = 0; i < 2000; ++i)
    KINTSUGI_ASSERT_OK(write(cluster, file, model, cluster.random_below(4096) * 4096, 4096));
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->sync({})));
  const proto::Attributes before = file.attributes();
  const Layout scattered = layout_of(cluster, "/file");
  EXPECT_GT(scattered.extents, 1000u) << "nothing is scattered: this shows nothing";
  cluster.run_for(60s);
  const Layout after = layout_of(cluster, "/file");
  EXPECT_LE(after.extents, at_first.extents + 4);
  for (const uint64_t stripe : after.stripes)
    EXPECT_FALSE(scattered.stripes.contains(stripe)) << "part of stripe " << stripe << " is waste";
  Bytes found(model.size());
  KINTSUGI_ASSERT_OK(cluster.run(read_into(file, 0, found)));
  EXPECT_TRUE(found == model);
  const auto attributes = cluster.run(files->calls().get({}, inode));
  ASSERT_TRUE(attributes) << attributes.error();
  EXPECT_EQ(attributes->modified_ns(), before.modified_ns()) << "nobody wrote";
  EXPECT_EQ(attributes->changed_ns(), before.changed_ns());
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->close({})));
  opened->reset();
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

TEST(Compaction, TakesNoLeaseOfWhoKeepsSomethingBack) {
  SimulatedCluster cluster({.seed = 3});
  KINTSUGI_ASSERT_OK(cluster.start());
  scatter(cluster, "/file", 4 << 20, 300);
  const auto where = cluster.run(cluster.client().extents("/file"));
  ASSERT_TRUE(where) << where.error();
  const uint64_t inode = where->attributes().inode();
  auto files = cluster.client().open_files({.write_behind = 10min});
  KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
  auto opened = cluster.run(files->open({}, inode, true));
  ASSERT_TRUE(opened) << opened.error();
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->file().write({}, 5, Bytes(100))));
  ASSERT_TRUE(files->session().has_lease(inode));
  cluster.run_for(30s);
  EXPECT_GT(counts(cluster).bytes, 0u);
  EXPECT_TRUE(files->session().has_lease(inode));
  EXPECT_TRUE(files->has_dirty());
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->close({})));
  opened->reset();
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

TEST(Compaction, NeedsNoClient) {
  SimulatedCluster cluster({.seed = 8});
  KINTSUGI_ASSERT_OK(cluster.start());
  const Bytes model = scatter(cluster, "/file", 8 << 20, 500);
  const Layout scattered = layout_of(cluster, "/file");
  EXPECT_GT(scattered.extents, 300u);
  cluster.run_for(30s);
  EXPECT_LE(layout_of(cluster, "/file").extents, 8u);
  EXPECT_EQ(counts(cluster).files, 1u);
  EXPECT_GE(counts(cluster).bytes, 8u << 20);
  EXPECT_EQ(counts(cluster).lost, 0u);
  expect_content(cluster, "/file", model);
  // The space of what was overwritten is back.
  const std::set<uint64_t> named = layout_of(cluster, "/file").stripes;
  for (size_t server = 0; server < cluster.chunkservers(); ++server)
    for (const ChunkId chunk : cluster.chunk_files(server))
      EXPECT_TRUE(named.contains(chunk.stripe.value)) << chunk << " is left on server " << server;
}

TEST(Compaction, PassesOverAnExbibyteOfHoles) {
  SimulatedCluster cluster({.seed = 9});
  KINTSUGI_ASSERT_OK(cluster.start());
  const uint64_t inode = make_file(cluster, "/file");
  auto files = cluster.client().open_files();
  auto opened = cluster.run(files->open({}, inode));
  ASSERT_TRUE(opened) << opened.error();
  client::OpenFile& file = (*opened)->file();
  constexpr uint64_t kFar = 1ull << 60;
  const Bytes bytes = random_content(cluster, 4096);
  for (uint64_t i = 200; i-- > 0;) {
    KINTSUGI_ASSERT_OK(cluster.run(file.write({}, kFar + i * 4096, bytes)));
    KINTSUGI_ASSERT_OK(cluster.run((*opened)->sync({})));
  }
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->close({}, true)));
  opened->reset();
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
  cluster.run_for(60s);
  EXPECT_LE(layout_of(cluster, "/file").extents, 2u);
  EXPECT_EQ(counts(cluster).files, 1u);
  EXPECT_EQ(counts(cluster).waiting, 0u);
}

TEST(Compaction, LetsRepairsGoFirst) {
  SimulatedCluster cluster({.seed = 10, .repair_bytes_per_second = 256 << 10});
  KINTSUGI_ASSERT_OK(cluster.start());
  for (int i = 0; i < 6; ++i)
    KINTSUGI_ASSERT_OK(cluster.put(fmt::format("/other-{}", i), 12 << 20));
  cluster.crash_chunkserver(3, Crash::kKill);
  const auto repairs = [&] { return cluster.status_of_repair_manager(0).running_size() > 0; };
  ASSERT_TRUE(cluster.simulation().run_until(repairs, 1min));
  const Bytes model = scatter(cluster, "/file", 2 << 20, 300);
  const auto taken = [&] { return counts(cluster).waiting > 0; };
  ASSERT_TRUE(cluster.simulation().run_until(taken, 1min));
  const Duration began = cluster.elapsed();
  while (repairs() && cluster.elapsed() - began < repair_manager::Compactor::kLongestYield / 2) {
    EXPECT_EQ(counts(cluster).bytes, 0u);
    cluster.run_for(100ms);
  }
  EXPECT_GT(cluster.elapsed() - began, 3s) << "the repairs took no time: this shows nothing";
  KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
  cluster.run_for(20s);
  EXPECT_GT(counts(cluster).bytes, 0u);
  expect_content(cluster, "/file", model);
}

TEST(Compaction, IsNoFasterThanServersLetRepairsBe) {
  SimulatedCluster cluster({.seed = 11, .repair_bytes_per_second = 2 << 20});
  KINTSUGI_ASSERT_OK(cluster.start());
  scatter(cluster, "/file", 32 << 20, 2000);
  const auto begins = [&] { return counts(cluster).bytes > 0; };
  ASSERT_TRUE(cluster.simulation().run_until(begins, 1min));
  cluster.run_for(6s);
  // The first window, and 12 MiB.
  EXPECT_LE(counts(cluster).bytes, repair_manager::Compactor::kWindowBytes + (13u << 20));
  cluster.run_for(30s);
  EXPECT_GE(counts(cluster).bytes, 31u << 20);
}

TEST(Compaction, IsSharedByShardAndEachFileIsDoneOnce) {
  constexpr size_t kManagers = 3, kFiles = 24;
  SimulatedCluster cluster({.seed = 12, .repair_managers = kManagers});
  KINTSUGI_ASSERT_OK(cluster.start());
  std::vector<Bytes> models;
  for (size_t i = 0; i < kFiles; ++i)
    models.push_back(scatter(cluster, fmt::format("/file-{}", i), 1 << 20, 150));
  cluster.run_for(30s);
  uint64_t files = 0, bytes = 0;
  for (size_t manager = 0; manager < kManagers; ++manager) {
    const repair_manager::CompactionCounts found = counts(cluster, manager);
    EXPECT_GT(found.files, 0u) << manager;
    EXPECT_EQ(found.lost + found.failed, 0u);
    files += found.files;
    bytes += found.bytes;
  }
  EXPECT_EQ(files, kFiles);
  EXPECT_EQ(bytes, kFiles << 20);
  for (size_t i = 0; i < kFiles; ++i)
    expect_content(cluster, fmt::format("/file-{}", i), models[i]);
}

TEST(Compaction, IsDoneByAnotherWhenItsManagerDies) {
  SimulatedCluster cluster({.seed = 13, .repair_managers = 2, .repair_bytes_per_second = 4 << 20});
  KINTSUGI_ASSERT_OK(cluster.start());
  const Bytes model = scatter(cluster, "/file", 32 << 20, 2000);
  const auto begins = [&] { return counts(cluster, 0).bytes + counts(cluster, 1).bytes > 0; };
  ASSERT_TRUE(cluster.simulation().run_until(begins, 1min));
  const size_t busy = counts(cluster, 0).bytes > 0 ? 0 : 1;
  cluster.crash_repair_manager(busy, Crash::kPower);
  EXPECT_GT(layout_of(cluster, "/file").extents, 500u);
  // Nobody remembers that it was handed out: the metaserver finds it when it looks at all files.
  cluster.run_for(12min);
  EXPECT_LE(layout_of(cluster, "/file").extents, 12u);
  EXPECT_GT(counts(cluster, 1 - busy).bytes, 0u);
  expect_content(cluster, "/file", model);
}

/// The metaserver keeps nothing itself, soon too much, or all that it is sent.
uint64_t inline_bytes_for(uint64_t seed) {
  return seed % 3 == 0 ? 0 : seed % 3 == 1 ? 64 << 10 : 1 << 30;
}

/// A file that is written to while it is compacted all the time, in a cluster in which things fail.
class Race {
 public:
  explicit Race(uint64_t seed)
      : cluster({.seed = seed, .repair_managers = 2, .inline_bytes = inline_bytes_for(seed)}) {}

  void run() {
    KINTSUGI_ASSERT_OK(cluster.start());
    inode_ = make_file(cluster, "/file");
    files_ = cluster.client().open_files();
    auto opened = cluster.run(files_->open({}, inode_, cluster.random().coin()));
    ASSERT_TRUE(opened) << opened.error();
    handle_ = std::move(*opened);
    model_ = random_content(cluster, 3 << 20);
    KINTSUGI_ASSERT_OK(cluster.run(handle_->file().write({}, 0, model_)));
    for (int round = 0; round < 6; ++round) {
      SCOPED_TRACE(fmt::format("round {}", round));
      ASSERT_NO_FATAL_FAILURE(do_round());
    }
    KINTSUGI_ASSERT_OK(cluster.run(handle_->close({}, true)));
    handle_.reset();
    KINTSUGI_EXPECT_OK(cluster.run(files_->stop()));
    files_.reset();
    ASSERT_NO_FATAL_FAILURE(expect_all_is_well());
  }

  SimulatedCluster cluster;
  bool moved = false, lost = false;  ///< compaction won, and lost, at least once

 private:
  void do_round() {
    for (int i = 0; i < 100; ++i)
      KINTSUGI_ASSERT_OK(write_some(cluster, handle_->file(), model_));
    KINTSUGI_ASSERT_OK(cluster.run(handle_->sync({})));
    for (int i = 0; i < 10; ++i) {
      if (cluster.random().coin()) compact();
      cluster.run_for(cluster.random_time(0s, 20ms));
      ASSERT_NO_FATAL_FAILURE(change());
      if (cluster.random_below(8) == 0) fail();
    }
    for (size_t manager = 0; manager < 2; ++manager) {
      moved |= counts(cluster, manager).bytes > 0;
      lost |= counts(cluster, manager).lost > 0;
    }
    Bytes found(model_.size());
    KINTSUGI_ASSERT_OK(cluster.run(read_into(handle_->file(), 0, found)));
    ASSERT_TRUE(found == model_);
  }

  /// Has a repair manager that runs compact the file now, or both.
  void compact() {
    for (size_t manager = 0; manager < 2; ++manager)
      if (auto* compactor = cluster.compactor_of(manager);
          compactor != nullptr && cluster.random_below(3) > 0)
        compactor->want(InodeId{inode_});
  }

  void change() {
    client::OpenFile& file = handle_->file();
    switch (cluster.random_below(6)) {
      case 0: {
        const uint64_t size = 1'000'000 + cluster.random_below(2 << 20);
        KINTSUGI_ASSERT_OK(cluster.run(file.truncate({}, size)));
        model_.resize(size);
        break;
      }
      case 1: {
        const uint64_t offset = cluster.random_below(model_.size() - 20'000);
        KINTSUGI_ASSERT_OK(
            cluster.run(file.allocate({}, {.keep_size = true, .punch_hole = true}, offset, 20'000)));
        std::fill_n(model_.begin() + static_cast<ptrdiff_t>(offset), 20'000, std::byte{});
        break;
      }
      case 2: KINTSUGI_ASSERT_OK(cluster.run(handle_->sync({}))); break;
      default: KINTSUGI_ASSERT_OK(write_some(cluster, file, model_));
    }
  }

  void fail() {
    const Crash how = cluster.random().coin() ? Crash::kPower : Crash::kKill;
    const Duration away = cluster.random_time(0s, 15s);
    switch (cluster.random_below(3)) {
      case 0:
        cluster.crash_metaserver(how);
        cluster.run_for(away / 4);
        cluster.restart_metaserver();
        break;
      case 1: {
        const size_t manager = cluster.random_below(2);
        cluster.crash_repair_manager(manager, how);
        cluster.run_for(away);
        cluster.restart_repair_manager(manager);
        break;
      }
      default: {
        const size_t server = cluster.pick(1).front();
        cluster.crash_chunkserver(server, how);
        cluster.run_for(away);
        cluster.restart_chunkserver(server);
      }
    }
  }

  /// The bytes are those that were written, and what lies badly is written anew without a client.
  void expect_all_is_well() {
    KINTSUGI_ASSERT_OK(cluster.wait_until_healthy());
    expect_content(cluster, "/file", model_);
    cluster.run_for(12min);
    // What lies in fewer pieces is not worth being written anew.
    const size_t most = std::max<size_t>(metaserver::Compactions::kSmallExtents, model_.size() / (32 << 10));
    EXPECT_LE(layout_of(cluster, "/file").extents, most);
    expect_content(cluster, "/file", model_);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
  }

  uint64_t inode_ = 0;
  std::unique_ptr<client::OpenFiles> files_;
  std::unique_ptr<client::OpenHandle> handle_;
  Bytes model_;
};

TEST(Compaction, NeverWinsAgainstAWriterWhateverFails) {
  const std::vector<uint64_t> all = seeds({1, 2, 3, 4, 5, 6});
  size_t moved = 0, lost = 0;
  for (const uint64_t seed : all) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Race race(seed);
    race.run();
    moved += race.moved;
    lost += race.lost;
  }
  if (all.size() == 1) return;
  EXPECT_EQ(moved, all.size());
  EXPECT_GE(lost, all.size() / 2) << "writers and compaction hardly met: this shows little";
}

}  // namespace
}  // namespace kintsugi::simulation
