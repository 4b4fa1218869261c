// Open files on a whole cluster whose servers crash: what was synced is there, and what was written is read back.
#include "client/lib/files/open_files.h"

#include <gtest/gtest.h>

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

Bytes part(const Bytes& bytes, uint64_t offset, uint64_t length) {
  if (offset >= bytes.size()) return {};
  const auto begin = bytes.begin() + static_cast<ptrdiff_t>(offset);
  return {begin, begin + static_cast<ptrdiff_t>(std::min<uint64_t>(length, bytes.size() - offset))};
}

asio::awaitable<void> keep_outcome(asio::awaitable<Status> operation, std::optional<Status>& outcome) {
  outcome = co_await std::move(operation);
}

/// Runs the operation; while it is under way, something fails and comes back.
Status under_fault(SimulatedCluster& cluster, asio::awaitable<Status> operation) {
  std::optional<Status> outcome;
  asio::co_spawn(cluster.simulation().executor(), keep_outcome(std::move(operation), outcome),
                 asio::detached);
  cluster.run_for(cluster.random_time(0s, 300ms));
  if (cluster.random_below(2) == 0) {
    cluster.crash_metaserver();
    cluster.run_for(cluster.random_time(0s, 20s));
    cluster.restart_metaserver();
  } else {
    const std::vector<size_t> victims = cluster.pick(1 + cluster.random_below(2));
    for (const size_t server : victims)
      cluster.crash_chunkserver(server, Crash::kPower);
    cluster.run_for(cluster.random_time(0s, 20s));
    for (const size_t server : victims)
      cluster.restart_chunkserver(server);
  }
  if (!cluster.simulation().run_until([&] { return outcome.has_value(); }, SimulatedCluster::kOperationLimit))
    return {Code::kDeadlineExceeded, "it never ended"};
  return *outcome;
}

asio::awaitable<Status> read_into(client::OpenFile& file, uint64_t offset, Bytes& into) {
  KINTSUGI_CO_ASSIGN(const size_t filled, co_await file.read(offset, into));
  into.resize(filled);
  co_return Status{};
}

TEST(OpenFilesInACluster, HoldWhatTheModelSaysThroughCrashes) {
  for (const uint64_t seed : seeds({1, 2, 3, 4})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    const uint64_t inode = make_file(cluster, "/file");
    auto files = cluster.client().open_files({.dirty_bytes = 4 << 20});
    auto opened = cluster.run(files->open(inode));
    ASSERT_TRUE(opened) << opened.error();
    client::OpenHandle& handle = **opened;
    client::OpenFile& file = handle.file();
    Bytes model;
    const auto random = [&](uint64_t bound) { return cluster.random_below(bound); };
    for (int step = 0; step < 120; ++step) {
      const uint64_t offset = random(2'000'000), length = 1 + random(random(3) == 0 ? 800'000 : 9000);
      const bool fault = random(12) == 0;
      const auto run = [&](asio::awaitable<Status> operation) {
        return fault ? under_fault(cluster, std::move(operation)) : cluster.run(std::move(operation));
      };
      switch (random(10)) {
        case 0: {
          const uint64_t size = random(3'000'000);
          KINTSUGI_ASSERT_OK(run(file.truncate(size)));
          model.resize(size);
          break;
        }
        case 1: {
          KINTSUGI_ASSERT_OK(run(file.allocate({.keep_size = true, .punch_hole = true}, offset, length)));
          for (uint64_t i = offset; i < std::min<uint64_t>(offset + length, model.size()); ++i)
            model[i] = std::byte{};
          break;
        }
        case 2: KINTSUGI_ASSERT_OK(run(handle.sync())); break;
        case 3:
        case 4:
        case 5: {
          Bytes found(length);
          KINTSUGI_ASSERT_OK(run(read_into(file, offset, found)));
          ASSERT_TRUE(found == part(model, offset, length)) << "step " << step;
          break;
        }
        default: {
          const Bytes bytes = random_content(cluster, length);
          KINTSUGI_ASSERT_OK(run(file.write(offset, bytes)));
          model.resize(std::max<uint64_t>(model.size(), offset + length));
          std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
        }
      }
    }
    KINTSUGI_ASSERT_OK(cluster.run(handle.close(true)));
    opened->reset();
    KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
    files.reset();
    // By its path, as `get` reads it.
    const auto back = cluster.get("/file");
    ASSERT_TRUE(back) << back.error();
    EXPECT_TRUE(*back == model);
  }
}

/// Opens the file for writing, changes it, and closes it as the mount does: without waiting for anything under a lease.
Status change_and_close(SimulatedCluster& cluster, client::OpenFiles& files, uint64_t inode, Bytes& model) {
  auto opened = cluster.run(files.open(inode, true));
  if (!opened) return opened.error();
  const uint64_t offset = cluster.random_below(100'000);
  const Bytes bytes =
      random_content(cluster, 1 + cluster.random_below(cluster.random_below(4) == 0 ? 900'000 : 5000));
  KINTSUGI_TRY(cluster.run((*opened)->file().write(offset, bytes)));
  KINTSUGI_TRY(cluster.run((*opened)->close(!files.session().has_lease(inode))));
  model.resize(std::max<uint64_t>(model.size(), offset + bytes.size()));
  std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
  return {};
}

Result<Bytes> open_and_read(SimulatedCluster& cluster, client::OpenFiles& files, uint64_t inode) {
  auto opened = cluster.run(files.open(inode));
  if (!opened) return opened.error();
  Bytes found((*opened)->file().size());
  KINTSUGI_TRY(cluster.run(read_into((*opened)->file(), 0, found)));
  KINTSUGI_TRY(cluster.run((*opened)->close()));
  return found;
}

TEST(OpenFilesInACluster, WhatOneClientClosedTheOtherSeesWhenItOpensIt) {
  uint64_t kept_back = 0;
  for (const uint64_t seed : seeds({1, 2, 3, 4, 5, 6})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    constexpr size_t kFiles = 4;
    std::vector<uint64_t> inodes;
    for (size_t i = 0; i < kFiles; ++i)
      inodes.push_back(make_file(cluster, fmt::format("/file-{}", i)));
    std::vector<Bytes> models(kFiles);
    std::vector<std::unique_ptr<client::OpenFiles>> clients;
    for (int i = 0; i < 2; ++i)
      clients.push_back(cluster.client().open_files({.dirty_bytes = 4 << 20}));
    for (int step = 0; step < 100; ++step) {
      const size_t file = cluster.random_below(kFiles);
      client::OpenFiles& some = *clients[cluster.random_below(2)];
      if (cluster.random_below(15) == 0) {
        cluster.crash_metaserver(cluster.random_below(2) == 0 ? Crash::kPower : Crash::kKill);
        cluster.run_for(cluster.random_time(0s, 3s));
        cluster.restart_metaserver();
      }
      if (cluster.random_below(20) == 0) cluster.run_for(cluster.random_time(0s, 8s));
      switch (cluster.random_below(4)) {
        case 0:
        case 1:
          KINTSUGI_ASSERT_OK(change_and_close(cluster, some, inodes[file], models[file]));
          kept_back += some.has_dirty();
          break;
        case 2: {
          const auto found = open_and_read(cluster, some, inodes[file]);
          ASSERT_TRUE(found) << found.error();
          ASSERT_TRUE(*found == models[file]) << "step " << step;
          break;
        }
        default: {
          const auto found = cluster.get(fmt::format("/file-{}", file));
          ASSERT_TRUE(found) << found.error();
          ASSERT_TRUE(*found == models[file]) << "step " << step << ", by path";
        }
      }
    }
    for (auto& files : clients)
      KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
    clients.clear();
  }
  EXPECT_GT(kept_back, 0u) << "nothing was ever kept back: this shows nothing";
}

TEST(OpenFilesInACluster, ThousandsOfSmallOverwritesAreReadBackAtOnce) {
  SimulatedCluster cluster({.seed = 5});
  KINTSUGI_ASSERT_OK(cluster.start());
  const uint64_t inode = make_file(cluster, "/file");
  auto files = cluster.client().open_files();
  auto opened = cluster.run(files->open(inode));
  ASSERT_TRUE(opened) << opened.error();
  Bytes model = random_content(cluster, 16 << 20);
  client::OpenFile& file = (*opened)->file();
  KINTSUGI_ASSERT_OK(cluster.run(file.write(0, model)));
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->sync()));
  for (int i = 0; i < 3000; ++i) {
    const uint64_t offset = cluster.random_below(4096) * 4096;
    const Bytes bytes = random_content(cluster, 4096);
    KINTSUGI_ASSERT_OK(cluster.run(file.write(offset, bytes)));
    std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
  }
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->sync()));
  Bytes found(model.size());
  KINTSUGI_ASSERT_OK(cluster.run(read_into(file, 0, found)));
  EXPECT_TRUE(found == model);
  const auto back = cluster.get("/file");
  ASSERT_TRUE(back) << back.error();
  EXPECT_TRUE(*back == model);
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->close()));
  opened->reset();
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

}  // namespace
}  // namespace kintsugi::simulation
