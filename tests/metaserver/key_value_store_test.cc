// One suite for every KeyValueStore, and what only one of them has.
#include <filesystem>
#include <random>

#include <gtest/gtest.h>

#include "metaserver/kv/pending_writes.h"
#include "metaserver/kv/read_cache.h"
#include "metaserver/kv/rocksdb_store.h"
#include "tests/expect_ok.h"
#include "tests/metaserver/support.h"
#include "tests/simulation/store/memory_store.h"

namespace kintsugi::metaserver {
namespace {

using simulation::Simulation;

std::vector<std::pair<std::string, std::string>> all_of(const auto& view, std::string_view begin = "",
                                                        std::string_view end = "") {
  std::vector<std::pair<std::string, std::string>> found;
  view.scan(begin, end, [&](std::string_view key, std::string_view value) {
    found.emplace_back(key, value);
    return true;
  });
  return found;
}

Batch put(std::string key, std::string value) {
  Batch batch;
  batch.put(std::move(key), std::move(value));
  return batch;
}

/// Starts a commit and does not wait for it: what reads see at once, while it is not durable.
struct Started {
  bool done = false;
  Status status;
};
std::shared_ptr<Started> start(const asio::any_io_executor& executor, KeyValueStore& store, Batch batch) {
  auto started = std::make_shared<Started>();
  auto body = [](KeyValueStore& store, Batch batch, std::shared_ptr<Started> into) -> asio::awaitable<void> {
    into->status = co_await store.commit(std::move(batch));
    into->done = true;
  };
  asio::co_spawn(executor, body(store, std::move(batch), started), asio::detached);
  return started;
}

/// A store of one kind that can be closed or crash, and be opened again.
class Bench {
 public:
  virtual ~Bench() = default;
  virtual KeyValueStore& store() = 0;
  virtual void reopen() = 0;  ///< after a clean close
  virtual void crash() = 0;   ///< and open again
  virtual asio::any_io_executor executor() = 0;
  virtual void run(asio::awaitable<void> task) = 0;
  /// Runs what is ready, without letting a sync finish if that can be helped.
  virtual void run_ready() = 0;
};

class MemoryBench final : public Bench {
 public:
  MemoryBench() : simulation_(1) { open(); }
  KeyValueStore& store() override { return *store_; }
  void reopen() override {
    simulation_.run(store_->close());
    open();
  }
  void crash() override {
    disk_.crash();
    open();
  }
  asio::any_io_executor executor() override { return simulation_.executor(); }
  void run(asio::awaitable<void> task) override { simulation_.run(std::move(task)); }
  void run_ready() override { simulation_.run_for(1us); }

 private:
  void open() {
    store_.reset();
    store_ =
        std::make_unique<simulation::MemoryStore>(simulation_.executor(), simulation_.clock(), disk_, 1ms);
  }
  Simulation simulation_;
  simulation::MemoryStoreDisk disk_;
  std::unique_ptr<simulation::MemoryStore> store_;
};

class RocksBench final : public Bench {
 public:
  RocksBench() { open(); }
  ~RocksBench() override { store_.reset(); }
  KeyValueStore& store() override { return *store_; }
  void reopen() override {
    run(store_->close());
    open();
  }
  void crash() override { open(); }
  asio::any_io_executor executor() override { return io_.get_executor(); }
  void run(asio::awaitable<void> task) override {
    io_.restart();
    asio::co_spawn(io_, std::move(task), [](std::exception_ptr error) {
      if (error) std::rethrow_exception(error);
    });
    io_.run();
  }
  void run_ready() override {
    io_.restart();
    io_.run_one();
  }

 private:
  void open() {
    store_.reset();
    auto opened = RocksDbStore::open(io_.get_executor(), directory_.path());
    ASSERT_TRUE(opened) << opened.error();
    store_ = std::move(*opened);
  }
  asio::io_context io_;
  TemporaryDirectory directory_;
  std::unique_ptr<RocksDbStore> store_;
};

template <class B>
class KeyValueStoreTest : public ::testing::Test {
 protected:
  KeyValueStore& store() { return bench_.store(); }
  void commit(Batch batch) {
    auto body = [](KeyValueStore& store, Batch batch) -> asio::awaitable<void> {
      const Status status = co_await store.commit(std::move(batch));
      KINTSUGI_EXPECT_OK(status);
    };
    bench_.run(body(store(), std::move(batch)));
  }
  B bench_;
};
using Benches = ::testing::Types<MemoryBench, RocksBench>;
TYPED_TEST_SUITE(KeyValueStoreTest, Benches);

TYPED_TEST(KeyValueStoreTest, ShowsABatchAtOnceAndKeepsItOverAReopen) {
  auto started = start(this->bench_.executor(), this->store(), put("a", "1"));
  this->bench_.run_ready();
  EXPECT_EQ(this->store().get("a"), "1");
  this->commit(put("b", "2"));
  EXPECT_TRUE(started->done);
  this->bench_.reopen();
  EXPECT_EQ(this->store().get("a"), "1");
  EXPECT_EQ(this->store().get("b"), "2");
  EXPECT_EQ(this->store().get("c"), std::nullopt);
}

TYPED_TEST(KeyValueStoreTest, AppliesTheWritesOfABatchInOrder) {
  Batch batch = put("a", "1");
  batch.remove("a");
  batch.put("a", "2");
  batch.put("b", "1");
  batch.remove("b");
  this->commit(std::move(batch));
  EXPECT_EQ(this->store().get("a"), "2");
  EXPECT_EQ(this->store().get("b"), std::nullopt);
}

TYPED_TEST(KeyValueStoreTest, ScansInKeyOrderWithPendingWritesAndRemovals) {
  Batch base;
  for (const char* key : {"a", "b", "c", "d", "e"})
    base.put(key, "old");
  this->commit(std::move(base));
  Batch pending;
  pending.remove("b");
  pending.put("c", "new");
  pending.put("cc", "new");
  pending.put("A", "new");
  pending.remove("e");
  auto started = start(this->bench_.executor(), this->store(), std::move(pending));
  this->bench_.run_ready();
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(all_of(this->store()),
            (Pairs{{"A", "new"}, {"a", "old"}, {"c", "new"}, {"cc", "new"}, {"d", "old"}}));
  EXPECT_EQ(all_of(this->store(), "b", "d"), (Pairs{{"c", "new"}, {"cc", "new"}}));
  EXPECT_EQ(all_of(this->store(), "cc", "cc"), Pairs{});
  int seen = 0;
  this->store().scan("", "", [&](std::string_view, std::string_view) { return ++seen < 2; });
  EXPECT_EQ(seen, 2);
  this->commit(put("z", ""));
  EXPECT_EQ(all_of(this->store(), "e"), (Pairs{{"z", ""}}));
}

TYPED_TEST(KeyValueStoreTest, ASnapshotDoesNotChange) {
  this->commit(put("a", "1"));
  auto pending = start(this->bench_.executor(), this->store(), put("b", "1"));
  this->bench_.run_ready();
  const auto snapshot = this->store().snapshot();
  Batch later = put("a", "2");
  later.remove("b");
  later.put("c", "2");
  this->commit(std::move(later));
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(all_of(*snapshot), (Pairs{{"a", "1"}, {"b", "1"}}));
  EXPECT_EQ(snapshot->get("a"), "1");
  EXPECT_EQ(snapshot->get("c"), std::nullopt);
  EXPECT_EQ(all_of(this->store()), (Pairs{{"a", "2"}, {"c", "2"}}));
}

TYPED_TEST(KeyValueStoreTest, DurableWaitsForWhatIsPendingAndNoLonger) {
  auto started = start(this->bench_.executor(), this->store(), put("a", "1"));
  this->bench_.run_ready();
  auto body = [](KeyValueStore& store, std::shared_ptr<Started> started) -> asio::awaitable<void> {
    const Status status = co_await store.durable();
    KINTSUGI_EXPECT_OK(status);
    EXPECT_TRUE(started->done);
    const Status again = co_await store.durable();
    KINTSUGI_EXPECT_OK(again);
  };
  this->bench_.run(body(this->store(), started));
  this->bench_.crash();
  EXPECT_EQ(this->store().get("a"), "1");
}

TYPED_TEST(KeyValueStoreTest, CompletesManyConcurrentCommitsInOrder) {
  std::vector<std::shared_ptr<Started>> started;
  for (int i = 0; i < 500; ++i) {
    started.push_back(
        start(this->bench_.executor(), this->store(), put("k" + std::to_string(i % 7), std::to_string(i))));
  }
  this->commit(put("last", "1"));
  for (const auto& one : started)
    EXPECT_TRUE(one->done && one->status.ok());
  this->bench_.crash();
  for (int i = 493; i < 500; ++i)
    EXPECT_EQ(this->store().get("k" + std::to_string(i % 7)), std::to_string(i));
}

TYPED_TEST(KeyValueStoreTest, AgreesWithAMapOverRandomBatchesAndReopens) {
  const uint64_t seed = Simulation::seed_from_environment(7);
  SCOPED_TRACE("KINTSUGI_SIM_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::map<std::string, std::string> model;
  for (int round = 0; round < 400; ++round) {
    Batch batch;
    for (uint64_t i = 0, n = random() % 6; i < n; ++i) {
      const std::string key = std::to_string(random() % 40);
      if (random() % 3 == 0) {
        batch.remove(key);
        model.erase(key);
      } else {
        batch.put(key, std::to_string(random()));
        model[key] = *batch.writes.back().value;
      }
    }
    if (random() % 5 == 0) {
      std::string begin = std::to_string(random() % 40), end = std::to_string(random() % 40);
      if (begin > end) std::swap(begin, end);
      while (model.lower_bound(begin) != model.lower_bound(end)) {
        batch.remove(model.lower_bound(begin)->first);
        model.erase(model.lower_bound(begin));
      }
      if (random() % 2 == 0) batch.put(begin, model[begin] = "back");
      batch.emptied.push_back({begin, end, 10'000});
    }
    if (random() % 4 == 0) {
      this->commit(std::move(batch));
    } else {
      start(this->bench_.executor(), this->store(), std::move(batch));
      this->bench_.run_ready();
      this->commit({});
    }
    ASSERT_EQ(all_of(this->store()),
              (std::vector<std::pair<std::string, std::string>>(model.begin(), model.end())));
    const std::string from = std::to_string(random() % 40);
    ASSERT_EQ(all_of(this->store(), from, from + "9"),
              (std::vector<std::pair<std::string, std::string>>(model.lower_bound(from),
                                                                model.lower_bound(from + "9"))));
    if (random() % 80 == 0) this->bench_.reopen();
  }
}

TEST(PendingWrites, AnOlderBatchTakesOnlyItsOwnEntriesAlong) {
  const auto batch = [](uint64_t sequence, const std::string& value) {
    PendingBatch made{sequence, {}};
    made.writes.push_back({"shared", value});
    made.writes.push_back({"own" + value, value});
    return std::make_shared<const PendingBatch>(std::move(made));
  };
  PendingWrites pending;
  pending.add(batch(1, "1"));
  pending.add(batch(2, "2"));
  ASSERT_NE(pending.find("own1"), nullptr);
  pending.drop_through(1);
  EXPECT_EQ(pending.find("own1"), nullptr);
  ASSERT_NE(pending.find("shared"), nullptr);
  EXPECT_EQ(*pending.find("shared"), "2");
  pending.drop_through(2);
  EXPECT_TRUE(pending.empty());
}

TEST(ReadCache, FollowsWritesAndForgetsTheOldestFirst) {
  ReadCache cache(16'000);
  cache.insert("a", "1");
  cache.insert("b", "1");
  cache.write("a", "2");
  cache.write("b", std::nullopt);
  cache.write("c", "never read");
  EXPECT_EQ(*cache.find("a"), "2");
  EXPECT_EQ(cache.find("b"), nullptr);
  EXPECT_EQ(cache.find("c"), nullptr);
  for (int i = 0; i < 200; ++i) {
    cache.insert("k" + std::to_string(i), std::string(100, 'x'));
    ASSERT_NE(cache.find("a"), nullptr) << "it is used all the time";
    ASSERT_LE(cache.bytes(), 16'000u);
  }
  EXPECT_EQ(cache.find("k0"), nullptr);
  EXPECT_NE(cache.find("k199"), nullptr);
  cache.insert("huge", std::string(10'000, 'x'));
  EXPECT_EQ(cache.find("huge"), nullptr);
}

TEST(MemoryStore, ACrashForgetsExactlyWhatWasNotSynced) {
  Simulation simulation(1);
  simulation::MemoryStoreDisk disk;
  auto store =
      std::make_unique<simulation::MemoryStore>(simulation.executor(), simulation.clock(), disk, 1ms);
  auto first = start(simulation.executor(), *store, put("a", "1"));
  simulation.run_for(2ms);
  ASSERT_TRUE(first->done);
  auto second = start(simulation.executor(), *store, put("b", "1"));
  auto third = start(simulation.executor(), *store, put("c", "1"));
  simulation.run_for(100us);
  EXPECT_EQ(store->get("c"), "1");
  EXPECT_FALSE(second->done);
  EXPECT_EQ(disk.unsynced_batches(), 2u);
  disk.crash(1);  // the first of the two reached the disk unacknowledged
  simulation.run_for(5ms);
  EXPECT_TRUE(second->done && !second->status.ok());
  EXPECT_TRUE(third->done && !third->status.ok());
  store = std::make_unique<simulation::MemoryStore>(simulation.executor(), simulation.clock(), disk, 1ms);
  EXPECT_EQ(store->get("a"), "1");
  EXPECT_EQ(store->get("b"), "1");
  EXPECT_EQ(store->get("c"), std::nullopt);
}

TEST(MemoryStore, AFailedSyncFailsEveryLaterCommit) {
  Simulation simulation(1);
  simulation::MemoryStoreDisk disk;
  simulation::MemoryStore store(simulation.executor(), simulation.clock(), disk, 1ms);
  disk.fail_syncs();
  std::vector<Status> told;
  store.on_failure = [&](const Status& why) { told.push_back(why); };
  auto first = start(simulation.executor(), store, put("a", "1"));
  simulation.run_for(2ms);
  EXPECT_EQ(first->status.code(), Code::kIoError);
  auto second = start(simulation.executor(), store, put("b", "1"));
  simulation.run_for(2ms);
  EXPECT_EQ(second->status.code(), Code::kIoError);
  EXPECT_TRUE(disk.durable().empty());
  ASSERT_EQ(told.size(), 1u) << "the daemon must hear of it, once";
  EXPECT_EQ(told[0].code(), Code::kIoError);
}

TEST(RocksDbStore, RefusesADirectoryThatIsInUse) {
  asio::io_context io;
  TemporaryDirectory directory;
  auto first = RocksDbStore::open(io.get_executor(), directory.path());
  ASSERT_TRUE(first);
  auto second = RocksDbStore::open(io.get_executor(), directory.path());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kUnavailable) << second.error();
}

}  // namespace
}  // namespace kintsugi::metaserver
