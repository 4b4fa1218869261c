// Several who write to one open file at once, and answers of the metaserver that come late.
#include <cstring>
#include <deque>

#include <gtest/gtest.h>

#include "client/lib/files/open_files.h"
#include "common/runtime/task_group.h"
#include "tests/client/fake_cluster.h"
#include "tests/expect_ok.h"
#include "tests/simulation/runtime/sim_random.h"
#include "tests/test_seeds.h"

namespace kintsugi::client {
namespace {

using Bytes = std::vector<std::byte>;

asio::awaitable<void> append(OpenFile& file, Bytes bytes, std::optional<uint64_t>& at) {
  const auto done = co_await file.append({}, bytes);
  EXPECT_TRUE(done) << done.error();
  if (done) at = *done;
}

asio::awaitable<void> change_mode(OpenFile& file, uint32_t mode) {
  proto::SetAttributesRequest request;
  request.set_mode(mode);
  const auto changed = co_await file.set_attributes({}, std::move(request));
  EXPECT_TRUE(changed) << changed.error();
}

asio::awaitable<void> sync(OpenHandle& handle) {
  const Status synced = co_await handle.sync({});
  KINTSUGI_EXPECT_OK(synced);
}

struct Writers {
  explicit Writers(uint64_t seed, FilesOptions options = {})
      : cluster(seed), files(cluster.open_files(options)), inode(cluster.meta.add_inode()) {
    auto opened = cluster.run(files->open({}, inode));
    KINTSUGI_ASSERT(opened);
    handle = std::move(*opened);
  }
  ~Writers() {
    (void)cluster.run(handle->close({}, true));
    handle.reset();
    (void)cluster.run(files->stop());
  }
  OpenFile& file() { return handle->file(); }
  Bytes read_all() {
    Bytes bytes(file().size());
    const auto read = cluster.run(file().read({}, 0, bytes));
    EXPECT_TRUE(read && *read == bytes.size());
    return bytes;
  }

  FakeCluster cluster;
  std::unique_ptr<OpenFiles> files;
  const uint64_t inode;
  std::unique_ptr<OpenHandle> handle;
};

TEST(ConcurrentWriters, TwoAppendsAtOnceDoNotOverwriteEachOther) {
  Writers writers(1, {.dirty_bytes = size_t{1} << 20});
  // The first has to wait for memory in the middle.
  for (auto& server : writers.cluster.servers)
    server->write_delay = 200ms;
  std::optional<uint64_t> first, second;
  runtime::TaskGroup group(writers.cluster.simulation.executor(), writers.cluster.simulation.clock());
  group.spawn(append(writers.file(), Bytes(3'000'000, std::byte{'a'}), first));
  group.spawn(append(writers.file(), Bytes(500'000, std::byte{'b'}), second));
  writers.cluster.run(group.join());
  EXPECT_EQ(first, 0u);
  EXPECT_EQ(second, 3'000'000u);
  EXPECT_EQ(writers.file().size(), 3'500'000u);
}

TEST(ConcurrentWriters, ALateAnswerToAChangeOfTheModeDoesNotBringTheOldSizeBack) {
  Writers writers(1);
  writers.cluster.meta.attributes_answered_after = 500ms;
  const Bytes bytes(200'000, std::byte{'a'});
  runtime::TaskGroup group(writers.cluster.simulation.executor(), writers.cluster.simulation.clock());
  group.spawn(change_mode(writers.file(), 0600));
  writers.cluster.simulation.run_for(50ms);
  KINTSUGI_EXPECT_OK(writers.cluster.run(writers.file().write({}, 0, bytes)));
  KINTSUGI_EXPECT_OK(writers.cluster.run(writers.handle->sync({})));
  writers.cluster.run(group.join());
  EXPECT_EQ(writers.file().size(), bytes.size());
  EXPECT_EQ(writers.file().attributes().mode() & 0777, 0600u);
  const auto at = writers.cluster.run(writers.file().append({}, Bytes(1000, std::byte{'b'})));
  ASSERT_TRUE(at) << at.error();
  EXPECT_EQ(*at, bytes.size()) << "the next append goes behind what was written";
}

/// What one round of a random history did: which byte each append wrote, and where.
struct Appended {
  std::byte value;
  size_t length;
  std::optional<uint64_t> at;
};

TEST(ConcurrentWriters, EveryAppendIsThereOnceAndWholeWhateverElseIsUnderWay) {
  const TestSeeds seeds(4);
  for (uint64_t seed = seeds.first(); seed < seeds.end(); ++seed) {
    SCOPED_TRACE(TestSeeds::replay(seed));
    simulation::SimRandom dice(seed);
    Writers writers(seed, {.dirty_bytes = size_t{1} << 20});
    std::deque<Appended> appends;
    for (int round = 0; round < 12; ++round) {
      writers.cluster.meta.attributes_answered_after = std::chrono::milliseconds(dice.below(700));
      writers.cluster.meta.lose_answers = dice.below(4) == 0 ? 1 : 0;
      for (auto& server : writers.cluster.servers)
        server->write_delay = std::chrono::milliseconds(dice.below(2) * dice.below(200));
      runtime::TaskGroup group(writers.cluster.simulation.executor(), writers.cluster.simulation.clock());
      const uint64_t operations = 1 + dice.below(5);
      for (uint64_t i = 0; i < operations; ++i) {
        switch (dice.below(4)) {
          case 0:
            group.spawn(change_mode(writers.file(), 0600 + static_cast<uint32_t>(dice.below(0100))));
            break;
          case 1: group.spawn(sync(*writers.handle)); break;
          default: {
            const size_t length = 1 + dice.below(dice.coin() ? 900'000 : 3000);
            Appended& made = appends.emplace_back(std::byte(1 + appends.size() % 250), length, std::nullopt);
            group.spawn(append(writers.file(), Bytes(length, made.value), made.at));
          }
        }
        if (dice.coin()) writers.cluster.simulation.run_for(std::chrono::milliseconds(dice.below(300)));
      }
      writers.cluster.run(group.join());
      uint64_t sum = 0;
      for (const Appended& made : appends)
        sum += made.length;
      ASSERT_EQ(writers.file().size(), sum) << "round " << round;
      const Bytes all = writers.read_all();
      for (const Appended& made : appends) {
        ASSERT_TRUE(made.at && *made.at + made.length <= all.size());
        const Bytes written(made.length, made.value);
        ASSERT_EQ(std::memcmp(all.data() + *made.at, written.data(), made.length), 0)
            << "round " << round << ", the append at byte " << *made.at;
      }
    }
  }
}

}  // namespace
}  // namespace kintsugi::client
