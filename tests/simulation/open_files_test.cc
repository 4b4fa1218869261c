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
  KINTSUGI_CO_ASSIGN(const size_t filled, co_await file.read({}, offset, into));
  into.resize(filled);
  co_return Status{};
}

/// The metaserver keeps nothing itself, soon too much, or all that it is sent.
uint64_t inline_bytes_for(uint64_t seed) {
  return seed % 3 == 0 ? 0 : seed % 3 == 1 ? 64 << 10 : 1 << 30;
}

TEST(OpenFilesInACluster, WhatWasSyncedUnderALeaseIsReadBackWithoutACall) {
  SimulatedCluster cluster({.seed = 1});
  KINTSUGI_ASSERT_OK(cluster.start());
  const uint64_t inode = make_file(cluster, "/file");
  auto files = cluster.client().open_files({.dirty_bytes = 4 << 20});
  KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
  auto opened = cluster.run(files->open({}, inode, true));
  ASSERT_TRUE(opened) << opened.error();
  client::OpenFile& file = (*opened)->file();
  ASSERT_TRUE(files->session().has_lease(inode));
  Bytes model(20'000);
  const auto write = [&](uint64_t offset, uint64_t length) {
    const Bytes bytes = random_content(cluster, length);
    KINTSUGI_ASSERT_OK(cluster.run(file.write({}, offset, bytes)));
    std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
  };
  write(0, 20'000);  // too much to be kept
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->sync({})));
  Bytes all(model.size());
  KINTSUGI_ASSERT_OK(cluster.run(read_into(file, 0, all)));
  EXPECT_EQ(all, model);
  const uint64_t asked = files->counts().locates;
  // Each sync with two runs, which lie partly over those of the one before.
  for (const uint64_t offset : {1'000, 3'000, 4'500}) {
    write(offset, 4'000);
    write(offset + 8'000, 500);
    KINTSUGI_ASSERT_OK(cluster.run((*opened)->sync({})));
    Bytes found(model.size());
    KINTSUGI_ASSERT_OK(cluster.run(read_into(file, 0, found)));
    EXPECT_EQ(found, model);
  }
  EXPECT_EQ(files->counts().locates, asked);
  KINTSUGI_EXPECT_OK(cluster.run((*opened)->close({})));
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

/// How long it takes to read the file in order, and how often the metaserver was asked where its bytes are.
struct Reading {
  Duration took{};
  uint64_t asked = 0;
};

Reading read_in_order(SimulatedCluster& cluster, uint64_t inode, uint64_t size) {
  auto files = cluster.client().open_files();
  KINTSUGI_EXPECT_OK(cluster.run(files->session().tell({})));
  auto opened = cluster.run(files->open({}, inode, false));
  KINTSUGI_ASSERT(opened);
  const Duration began = cluster.elapsed();
  Bytes piece(1 << 20);
  for (uint64_t offset = 0; offset < size; offset += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), size - offset));
    KINTSUGI_EXPECT_OK(cluster.run(read_into((*opened)->file(), offset, piece)));
  }
  const Reading reading{cluster.elapsed() - began, files->counts().locates};
  KINTSUGI_EXPECT_OK(cluster.run((*opened)->close({})));
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
  return reading;
}

TEST(OpenFilesInACluster, WhoReadsInOrderWaitsForNoLookUpButTheFirst) {
  constexpr uint64_t kSize = 300'000'000;
  constexpr Duration kOneWay = 5ms;
  SimulatedCluster cluster({.seed = 1});
  KINTSUGI_ASSERT_OK(cluster.start());
  KINTSUGI_ASSERT_OK(cluster.put("/file", kSize));
  const auto file = cluster.run(cluster.client().stat("/file"));
  ASSERT_TRUE(file) << file.error();
  cluster.network().set_link("client", 1'000'000'000, 1'000'000'000);
  const Reading near = read_in_order(cluster, file->inode(), kSize);
  cluster.network().set_extra_latency("metaserver", kOneWay);
  const Reading far = read_in_order(cluster, file->inode(), kSize);
  EXPECT_GE(far.asked, 4u);
  EXPECT_LE(far.asked, 6u) << "each tells of 64 MiB";
  EXPECT_LT(to_seconds(far.took), to_seconds(near.took + 2 * 2 * kOneWay)) << far.asked << " look-ups";
}

TEST(OpenFilesInACluster, HoldWhatTheModelSaysThroughCrashes) {
  for (const uint64_t seed : seeds({1, 2, 3, 4})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedCluster cluster({.seed = seed, .inline_bytes = inline_bytes_for(seed)});
    KINTSUGI_ASSERT_OK(cluster.start());
    const uint64_t inode = make_file(cluster, "/file");
    auto files = cluster.client().open_files({.dirty_bytes = 4 << 20});
    KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
    auto opened = cluster.run(files->open({}, inode, seed % 2 == 0));
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
          KINTSUGI_ASSERT_OK(run(file.truncate({}, size)));
          model.resize(size);
          break;
        }
        case 1: {
          KINTSUGI_ASSERT_OK(run(file.allocate({}, {.keep_size = true, .punch_hole = true}, offset, length)));
          for (uint64_t i = offset; i < std::min<uint64_t>(offset + length, model.size()); ++i)
            model[i] = std::byte{};
          break;
        }
        case 2: KINTSUGI_ASSERT_OK(run(handle.sync({}))); break;
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
          KINTSUGI_ASSERT_OK(run(file.write({}, offset, bytes)));
          model.resize(std::max<uint64_t>(model.size(), offset + length));
          std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
        }
      }
    }
    KINTSUGI_ASSERT_OK(cluster.run(handle.close({}, true)));
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
  auto opened = cluster.run(files.open({}, inode, true));
  if (!opened) return opened.error();
  const uint64_t offset = cluster.random_below(100'000);
  const Bytes bytes =
      random_content(cluster, 1 + cluster.random_below(cluster.random_below(4) == 0 ? 900'000 : 5000));
  KINTSUGI_TRY(cluster.run((*opened)->file().write({}, offset, bytes)));
  KINTSUGI_TRY(cluster.run((*opened)->close({}, !files.session().has_lease(inode))));
  model.resize(std::max<uint64_t>(model.size(), offset + bytes.size()));
  std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
  return {};
}

Result<Bytes> open_and_read(SimulatedCluster& cluster, client::OpenFiles& files, uint64_t inode) {
  auto opened = cluster.run(files.open({}, inode));
  if (!opened) return opened.error();
  Bytes found((*opened)->file().size());
  KINTSUGI_TRY(cluster.run(read_into((*opened)->file(), 0, found)));
  KINTSUGI_TRY(cluster.run((*opened)->close({})));
  return found;
}

TEST(OpenFilesInACluster, NothingChangesForThoseWhoLookWhenBytesAreWrittenOut) {
  SimulatedCluster cluster({.seed = 21});
  KINTSUGI_ASSERT_OK(cluster.start());
  const uint64_t inode = make_file(cluster, "/file");
  auto files = cluster.client().open_files({});
  auto opened = cluster.run(files->open({}, inode));
  ASSERT_TRUE(opened) << opened.error();
  client::OpenFile& file = (*opened)->file();
  KINTSUGI_ASSERT_OK(cluster.run(file.write({}, 0, random_content(cluster, 10))));
  const int64_t now = file.attributes().modified_ns();
  const auto set = [&](const std::function<void(proto::SetAttributesRequest&)>& fill) {
    proto::SetAttributesRequest request;
    fill(request);
    const auto done = cluster.run(file.set_attributes({}, std::move(request)));
    KINTSUGI_ASSERT(done);
  };
  const std::vector<std::function<void()>> after_a_write{
      [] {},
      [&] { set([](auto& request) { request.set_mode(04755); }); },
      [&] { set([](auto& request) { request.set_modified_ns(77); }); },
      [&] { set([](auto& request) { request.set_modified_ns(0); }); },
      [&] { set([](auto& request) { request.set_modified_ns(-5'000'000'000); }); },
      [&] { set([&](auto& request) { request.set_modified_ns(2 * now); }); },
      [&] { set([](auto& request) { request.set_size(70'000); }); },
      [&] { KINTSUGI_ASSERT_OK(cluster.run(file.write({}, 100'000, random_content(cluster, 100)))); },
  };
  for (size_t way = 0; way < after_a_write.size(); ++way) {
    cluster.run_for(1s);
    KINTSUGI_ASSERT_OK(cluster.run(file.write({}, 0, random_content(cluster, 5000), true)));
    cluster.run_for(10ms);
    after_a_write[way]();
    cluster.run_for(10ms);
    const proto::Attributes before = file.attributes();
    EXPECT_GT(before.used_bytes(), 0u) << way;
    if (way == 1)
      EXPECT_EQ(before.mode(), 04755u) << "the mode was set after the write that took the bits away";
    KINTSUGI_ASSERT_OK(cluster.run((*opened)->sync({})));
    const proto::Attributes after = file.attributes();
    EXPECT_EQ(after.modified_ns(), before.modified_ns()) << way;
    EXPECT_EQ(after.changed_ns(), before.changed_ns()) << way;
    EXPECT_EQ(after.mode(), before.mode()) << way;
    EXPECT_EQ(after.size(), before.size()) << way;
    EXPECT_LT(after.changed_ns(), 3 * now / 2) << way << ": a time that is set is not the time of the change";
  }
  (void)cluster.run((*opened)->close({}, true));
  (void)cluster.run(files->stop());
}

TEST(OpenFilesInACluster, WhatOneClientClosedTheOtherSeesWhenItOpensIt) {
  uint64_t kept_back = 0;
  for (const uint64_t seed : seeds({1, 2, 3, 4, 5, 6})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedCluster cluster({.seed = seed, .inline_bytes = inline_bytes_for(seed)});
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
  auto opened = cluster.run(files->open({}, inode));
  ASSERT_TRUE(opened) << opened.error();
  Bytes model = random_content(cluster, 16 << 20);
  client::OpenFile& file = (*opened)->file();
  KINTSUGI_ASSERT_OK(cluster.run(file.write({}, 0, model)));
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->sync({})));
  for (int i = 0; i < 3000; ++i) {
    const uint64_t offset = cluster.random_below(4096) * 4096;
    const Bytes bytes = random_content(cluster, 4096);
    KINTSUGI_ASSERT_OK(cluster.run(file.write({}, offset, bytes)));
    std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
  }
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->sync({})));
  Bytes found(model.size());
  KINTSUGI_ASSERT_OK(cluster.run(read_into(file, 0, found)));
  EXPECT_TRUE(found == model);
  const auto back = cluster.get("/file");
  ASSERT_TRUE(back) << back.error();
  EXPECT_TRUE(*back == model);
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->close({})));
  opened->reset();
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

TEST(OpenFilesInACluster, WhatTheMetaserverKeepsGoesToStripesBeforeItIsTooMuch) {
  SimulatedCluster cluster({.seed = 9, .inline_bytes = 256 << 10});
  KINTSUGI_ASSERT_OK(cluster.start());
  const uint64_t inode = make_file(cluster, "/file");
  auto files = cluster.client().open_files();
  auto opened = cluster.run(files->open({}, inode));
  ASSERT_TRUE(opened) << opened.error();
  client::OpenFile& file = (*opened)->file();
  Bytes model = random_content(cluster, 4 << 20);
  KINTSUGI_ASSERT_OK(cluster.run(file.write({}, 0, model)));
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->sync({})));
  const auto synced = [&](uint64_t offset) {
    const Bytes bytes = random_content(cluster, 4096);
    std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
    KINTSUGI_ASSERT_OK(cluster.run(file.write({}, offset, bytes)));
    KINTSUGI_ASSERT_OK(cluster.run((*opened)->sync({})));
  };
  const auto kept = [&] {
    uint64_t bytes = 0;
    const auto where = cluster.run(cluster.client().extents("/file"));
    for (const proto::Stripe& stripe : where->stripes())
      bytes += stripe.inline_data().size();
    return bytes;
  };
  // Too few extents for the file to be worth being written anew as a whole.
  for (uint64_t i = 0; i < 40; ++i)
    synced(i * 100'000);
  EXPECT_EQ(kept(), 40u * 4096);
  cluster.run_for(60s);
  EXPECT_EQ(kept(), 0u);
  for (uint64_t i = 0; i < 100; ++i)
    synced(i * 40'000);
  EXPECT_LE(kept(), 256u << 10);
  Bytes found(model.size());
  KINTSUGI_ASSERT_OK(cluster.run(read_into(file, 0, found)));
  EXPECT_TRUE(found == model);
  KINTSUGI_ASSERT_OK(cluster.run((*opened)->close({})));
  opened->reset();
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

proto::LockRequest lock_request(uint64_t inode, client::OpenFiles& files, proto::FileLock::Type type) {
  proto::LockRequest request;
  request.set_inode(inode);
  request.mutable_lock()->set_type(type);
  request.mutable_lock()->set_session(files.session().id());
  request.mutable_lock()->set_owner(1);
  request.mutable_lock()->set_end(100);
  return request;
}

TEST(OpenFilesInACluster, LocksOutliveTheMetaserverAndTheProcessOfTheClient) {
  for (const uint64_t seed : seeds({1, 2, 3})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    const uint64_t inode = make_file(cluster, "/file");
    client::ChangeJournal journal;
    std::vector<std::byte> region(client::OwnLocks::kBytes);
    const auto open = [&] { return cluster.client().open_files({}, nullptr, &journal, {}, region); };
    auto owner = open(), other = cluster.client().open_files();
    const auto lock = [&](client::OpenFiles& files, proto::FileLock::Type type) {
      const auto answer = cluster.run(files.locks().lock({}, lock_request(inode, files, type)));
      EXPECT_TRUE(answer) << answer.error();
      return answer && answer->granted();
    };
    EXPECT_TRUE(lock(*owner, proto::FileLock::EXCLUSIVE));
    for (int i = 0; i < 4; ++i) {
      if (cluster.random_below(2) == 0) {
        cluster.crash_metaserver(cluster.random_below(2) == 0 ? Crash::kPower : Crash::kKill);
        cluster.run_for(cluster.random_time(0s, 3s));
        cluster.restart_metaserver();
      } else {
        KINTSUGI_EXPECT_OK(cluster.run(owner->stop(true)));
        owner.reset();
        owner = open();
        cluster.run_for(1s);
      }
      EXPECT_FALSE(lock(*other, proto::FileLock::SHARED)) << "after " << i;
    }
    EXPECT_TRUE(owner->session().has_locks(inode, false, 1));
    EXPECT_TRUE(lock(*owner, proto::FileLock::NONE));
    EXPECT_TRUE(lock(*other, proto::FileLock::SHARED));
    for (auto* files : {&owner, &other})
      KINTSUGI_EXPECT_OK(cluster.run((*files)->stop()));
    owner.reset();
    other.reset();
  }
}

}  // namespace
}  // namespace kintsugi::simulation
