// Scans jump over what was removed together, and find all that is there: also when some of it is put again, and in both stores alike.
#include "metaserver/kv/empty_ranges.h"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>

#include "metaserver/kv/rocksdb_store.h"
#include "metaserver/schema/extents.h"
#include "tests/expect_ok.h"
#include "tests/metaserver/support.h"
#include "tests/simulation/store/memory_store.h"

namespace kintsugi::metaserver {
namespace {

using simulation::Simulation;

std::string key(uint64_t number) {
  return keys::extent(InodeId{7}, number);
}

TEST(EmptyRanges, AreOneWhenTheyTouch) {
  EmptyRanges ranges;
  ranges.add("b", "c", 100);
  ranges.add("d", "e", 100);
  EXPECT_EQ(ranges.size(), 2u);
  ranges.add("c", "d", 100);
  ASSERT_EQ(ranges.size(), 1u);
  const auto found = ranges.at_or_behind("a");
  EXPECT_EQ(found->first, "b");
  EXPECT_EQ(found->second.end, "e");
  EXPECT_EQ(found->second.removed, 300u);
  EXPECT_EQ(ranges.at_or_behind("e"), ranges.end());
}

TEST(EmptyRanges, APartInWhichHardlyAnythingWasRemovedIsForgotten) {
  EmptyRanges ranges;
  ranges.add(key(0), key(100'000), 1000);
  for (uint64_t at = 100; at <= 50'000; at += 100)
    ranges.put(key(at));
  ASSERT_EQ(ranges.size(), 1u) << "what lies between two that were put one behind the other is not worth it";
  EXPECT_EQ(ranges.at_or_behind("")->first, key(50'000) + '\0');
  EXPECT_NEAR(static_cast<double>(ranges.at_or_behind("")->second.removed), 500, 20);
  ranges.put(key(75'000));
  EXPECT_EQ(ranges.size(), 2u);
}

TEST(EmptyRanges, TheOldestIsForgottenWhenThereAreTooMany) {
  EmptyRanges ranges;
  for (uint64_t i = 0; i <= EmptyRanges::kMost; ++i)
    ranges.add(key(10 * i), key(10 * i + 5), 1000);
  EXPECT_EQ(ranges.size(), EmptyRanges::kMost);
  EXPECT_EQ(ranges.at_or_behind("")->first, key(10));
}

TEST(EmptyRanges, NeverHoldAnythingThatIsThere) {
  const uint64_t seed = Simulation::seed_from_environment(3);
  SCOPED_TRACE("KINTSUGI_SIM_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  EmptyRanges ranges;
  std::set<std::string> there;
  for (int round = 0; round < 3000; ++round) {
    const uint64_t at = random() % 1000;
    if (random() % 4 == 0) {
      const uint64_t end = at + random() % 200;
      there.erase(there.lower_bound(key(at)), there.lower_bound(key(end)));
      ranges.add(key(at), key(end), random() % 500);
    } else {
      there.insert(key(at));
      ranges.put(key(at));
    }
    std::string last;
    for (auto range = ranges.at_or_behind(""); range != ranges.end(); ++range) {
      ASSERT_LT(range->first, range->second.end);
      ASSERT_GE(range->first, last);
      ASSERT_EQ(there.lower_bound(range->first), there.lower_bound(range->second.end)) << "in " << round;
      last = range->second.end;
    }
  }
}

class StoreWithRemovedKeys : public ::testing::Test {
 protected:
  StoreWithRemovedKeys() { open(); }
  ~StoreWithRemovedKeys() override { store_.reset(); }

  void open() {
    store_.reset();
    auto opened = RocksDbStore::open(io_.get_executor(), directory_.path());
    ASSERT_TRUE(opened) << opened.error();
    store_ = std::move(*opened);
  }
  void commit(Batch batch) {
    const auto body = [](KeyValueStore& store, Batch batch) -> asio::awaitable<void> {
      KINTSUGI_EXPECT_OK(co_await store.commit(std::move(batch)));
    };
    io_.restart();
    asio::co_spawn(io_, body(*store_, std::move(batch)), asio::detached);
    io_.run();
  }
  void put(uint64_t begin, uint64_t end) {
    Batch batch;
    for (uint64_t at = begin; at < end; ++at)
      batch.put(key(at), std::to_string(at));
    commit(std::move(batch));
  }
  void remove(uint64_t begin, uint64_t end) {
    Batch batch;
    for (uint64_t at = begin; at < end; ++at)
      batch.remove(key(at));
    batch.emptied.push_back({key(begin), key(end), end - begin});
    commit(std::move(batch));
  }
  /// The keys of the range, and how many removed ones were passed over.
  std::pair<std::vector<std::string>, uint64_t> look(const ReadView& view, uint64_t begin, uint64_t end) {
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    rocksdb::get_perf_context()->Reset();
    std::vector<std::string> found;
    view.scan(key(begin), key(end), [&](std::string_view at, std::string_view) {
      found.emplace_back(at);
      return true;
    });
    return {found, rocksdb::get_perf_context()->internal_delete_skipped_count};
  }

  asio::io_context io_;
  TemporaryDirectory directory_;
  std::unique_ptr<RocksDbStore> store_;
};

TEST_F(StoreWithRemovedKeys, AScanJumpsOverWhatWasRemovedTogether) {
  put(0, 6000);
  auto before = store_->snapshot();
  for (uint64_t at = 1000; at < 5000; at += 250)
    remove(at, at + 250);
  const auto [found, passed] = look(*store_, 0, 10'000);
  EXPECT_EQ(found.size(), 2000u);
  EXPECT_EQ(passed, 0u);
  EXPECT_EQ(look(*store_, 2000, 10'000).first.front(), key(5000)) << "it may begin between them";
  EXPECT_TRUE(look(*store_, 2000, 4000).first.empty());
  EXPECT_EQ(look(*store_, 2000, 5001).first.size(), 1u);
  EXPECT_EQ(look(*before, 0, 10'000).first.size(), 6000u) << "a view sees what was there";
  put(3000, 3001);
  EXPECT_EQ(look(*store_, 2000, 4000), (std::pair{std::vector{key(3000)}, uint64_t{0}}));
  remove(3000, 3001);
  EXPECT_EQ(look(*store_, 0, 10'000), (std::pair{found, uint64_t{0}}));
  before.reset();
  open();
  EXPECT_EQ(look(*store_, 0, 10'000).first, found) << "what is not known any more is looked at";
}

/// A store whose batches remove ranges and say so, beside a plain map that is changed alike. Keys are short words of few letters, so
/// that many begin others, and that the ends of ranges fall on keys, between them, and right behind them.
class RangesBesideAMap : public StoreWithRemovedKeys {
 protected:
  using Model = std::map<std::string, std::string>;
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  struct View {
    std::unique_ptr<const ReadView> view;
    Model model;
  };

  std::string word() {
    static constexpr std::string_view kLetters{
        "\0\x01"
        "ab\xfe\xff",
        6};
    std::string made(random_() % 3, 'a');
    for (char& letter : made)
      letter = kLetters[random_() % kLetters.size()];
    return "w" + made + std::string(random_() % 2, '\0');
  }
  void change_at_random(Batch& batch) {
    std::map<std::string, std::optional<std::string>> writes;
    const auto put = [&](const std::string& key) { writes[key] = model_[key] = std::to_string(random_()); };
    const auto remove = [&](const std::string& key) {
      writes[key] = std::nullopt;
      model_.erase(key);
    };
    for (uint64_t i = 0, ranges = random_() % 3; i < ranges; ++i) {
      std::string begin = word(), end = word();
      if (begin > end) std::swap(begin, end);
      while (model_.lower_bound(begin) != model_.lower_bound(end))
        remove(std::string(model_.lower_bound(begin)->first));
      batch.emptied.push_back({begin, end, random_() % 300});
    }
    for (uint64_t i = 0, changes = random_() % 6; i < changes; ++i)
      random_() % 4 == 0 ? remove(word()) : put(word());
    for (auto& [key, value] : writes)
      batch.writes.push_back({key, value});
  }
  /// Begins a commit and does not wait for it.
  void begin(Batch batch) {
    const auto body = [](KeyValueStore& store, Batch batch) -> asio::awaitable<void> {
      KINTSUGI_EXPECT_OK(co_await store.commit(std::move(batch)));
    };
    asio::co_spawn(io_, body(*store_, std::move(batch)), asio::detached);
    io_.restart();
    io_.poll();
  }
  static Pairs of(const Model& model, const std::string& begin, const std::string& end, size_t most) {
    Pairs pairs;
    for (auto at = model.lower_bound(begin); at != model.end() && pairs.size() < most; ++at)
      if (end.empty() || at->first < end) pairs.push_back(*at);
    return pairs;
  }
  static Pairs of(const ReadView& view, const std::string& begin, const std::string& end, size_t most) {
    Pairs pairs;
    view.scan(begin, end, [&](std::string_view key, std::string_view value) {
      pairs.emplace_back(key, value);
      return pairs.size() < most;
    });
    return pairs;
  }
  void compare(const ReadView& view, const Model& model) {
    const std::string begin = random_() % 4 == 0 ? "" : word(), end = random_() % 4 == 0 ? "" : word();
    if (!end.empty() && begin > end) return;
    const size_t most = random_() % 3 == 0 ? 1 + random_() % 5 : SIZE_MAX;
    ASSERT_EQ(of(view, begin, end, most), of(model, begin, end, most));
    const std::string key = word();
    const auto found = model.find(key);
    ASSERT_EQ(view.get(key), found == model.end() ? std::nullopt : std::optional(found->second));
  }

  std::mt19937_64 random_;
  Model model_;
  std::vector<View> views_;
};

TEST_F(RangesBesideAMap, AScanFindsWhatIsThereWhateverWasEmptiedWhenAndByWhichBounds) {
  const uint64_t seed = Simulation::seed_from_environment(5);
  SCOPED_TRACE("KINTSUGI_SIM_SEED=" + std::to_string(seed));
  random_.seed(seed);
  for (int round = 0; round < 4000; ++round) {
    SCOPED_TRACE("in round " + std::to_string(round));
    Batch batch;
    change_at_random(batch);
    random_() % 8 == 0 ? commit(std::move(batch)) : begin(std::move(batch));
    if (random_() % 50 == 0) views_.push_back({store_->snapshot(), model_});
    if (views_.size() > 4) views_.erase(views_.begin());
    for (int look = 0; look < 4; ++look)
      compare(*store_, model_);
    for (const View& view : views_)
      compare(*view.view, view.model);
    if (HasFatalFailure()) return;
    if (round % 500 == 499) {
      commit({});
      views_.clear();
      open();
    }
  }
}

TEST_F(RangesBesideAMap, AScanFindsWhatIsThereWhenMoreRangesWereEmptiedThanAreRemembered) {
  random_.seed(Simulation::seed_from_environment(6));
  for (uint64_t round = 0; round < 3; ++round) {
    for (uint64_t at = 0; at < 2 * EmptyRanges::kMost; ++at) {
      Batch batch;
      std::map<std::string, std::optional<std::string>> writes;
      const uint64_t first = random_() % 20'000, end = first + random_() % 4;
      for (uint64_t place = first; place < end; ++place) {
        writes[key(place)] = std::nullopt;
        model_.erase(key(place));
      }
      batch.emptied.push_back({key(first), key(end), 1000});
      const std::string again = key(random_() % 20'000);
      writes[again] = model_[again] = std::to_string(at);
      for (auto& [name, value] : writes)
        batch.writes.push_back({name, value});
      at % 1000 == 0 ? commit(std::move(batch)) : this->begin(std::move(batch));
    }
    ASSERT_EQ(of(*store_, "", "", SIZE_MAX), of(model_, "", "", SIZE_MAX));
  }
}

/// Extents of a file are changed at random, in both stores, and compared with a list of what each place of the file has.
class ExtentsInBothStores : public StoreWithRemovedKeys {
 protected:
  static constexpr uint64_t kPlaces = 4000;

  template <class Change>
  void change(Change change) {
    const auto batch_of = [&](const ReadView& view) {
      Transaction transaction(view);
      ExtentWriter writer(transaction, InodeId{7});
      change(writer);
      proto::StoredInode inode;
      FreedStripes freed;
      writer.finish(inode, freed);
      return transaction.take();
    };
    Batch for_memory = batch_of(memory_);
    EXPECT_EQ(for_memory.emptied.empty(), batch_of(*store_).emptied.empty());
    told_ += for_memory.emptied.size();
    commit(batch_of(*store_));
    KINTSUGI_ASSERT_OK(simulation_.run(memory_.commit(std::move(for_memory))));
  }
  void compare(uint64_t from, const std::string& when) {
    std::map<uint64_t, uint64_t> expected;  // stripe by place
    for (uint64_t place = from; place < kPlaces; ++place)
      if (places_[place] != 0) expected[place] = places_[place];
    for (const ReadView* view :
         {static_cast<const ReadView*>(&memory_), static_cast<const ReadView*>(store_.get())}) {
      std::map<uint64_t, uint64_t> found;
      scan_extents(*view, InodeId{7}, from, [&](const proto::Extent& extent) {
        for (uint64_t i = 0; i < extent.length(); ++i)
          if (extent.file_offset() + i >= from) found[extent.file_offset() + i] = extent.stripe_id();
        return true;
      });
      ASSERT_EQ(found, expected) << when;
    }
  }

  Simulation simulation_{1};
  simulation::MemoryStoreDisk disk_;
  simulation::MemoryStore memory_{simulation_.executor(), simulation_.clock(), disk_, 1ms};
  std::vector<uint64_t> places_ = std::vector<uint64_t>(kPlaces, 0);
  size_t told_ = 0;
};

TEST_F(ExtentsInBothStores, AreTheSameWhateverIsClearedAndPut) {
  const uint64_t seed = Simulation::seed_from_environment(11);
  SCOPED_TRACE("KINTSUGI_SIM_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  Batch stripes;
  for (uint64_t id = 1; id <= 2; ++id) {
    proto::StoredStripe stripe;
    stripe.set_length(kPlaces);
    stripe.set_references(1'000'000);  // so that none is freed
    stripe.set_live_bytes(1'000'000'000);
    stripes.put(keys::stripe(StripeId{id}), stripe.SerializeAsString());
  }
  commit(stripes);
  KINTSUGI_ASSERT_OK(simulation_.run(memory_.commit(stripes)));
  const auto put = [&](ExtentWriter& writer, uint64_t at, uint64_t length, uint64_t stripe) {
    proto::Extent extent;
    extent.set_file_offset(at);
    extent.set_length(length);
    extent.set_stripe_id(stripe);
    writer.put(extent);
    std::fill_n(places_.begin() + static_cast<std::ptrdiff_t>(at), length, stripe);
  };
  for (int round = 0; round < 150; ++round) {
    const uint64_t at = random() % kPlaces, length = 1 + random() % (kPlaces - at);
    const uint64_t kind = random() % 4;
    // Both stores are changed by the same calls.
    const uint64_t step = 1 + random() % 3, stripe = 1 + random() % 2;
    change([&](ExtentWriter& writer) {
      if (kind == 0) put(writer, at, length, stripe);
      if (kind == 1 || kind == 3) put(writer, at, length, 0);
      if (kind == 2 || kind == 3)
        for (uint64_t place = at; place < std::min(kPlaces, at + 1000); place += step)
          put(writer, place, 1, stripe);
    });
    if (round % 40 == 39) open();
    compare(random() % 3 == 0 ? random() % kPlaces : 0, fmt::format("in round {}", round));
  }
  EXPECT_GT(told_, 20u);
}

}  // namespace
}  // namespace kintsugi::metaserver
