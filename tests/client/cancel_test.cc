// A client that is cancelled in the middle of what it does.
#include <gtest/gtest.h>

#include "tests/client/fake_cluster.h"

namespace kintsugi::client {
namespace {

constexpr Duration kSoon = 500ms;
constexpr Duration kDialLimit = 3s;  ///< a connection that is being made is waited for

/// Delivers so many bytes and then nothing, like a pipe whose writer sleeps, until it is released.
class StuckSource final : public Source {
 public:
  StuckSource(runtime::TaskGroup& release, uint64_t bytes) : release_(release), left_(bytes) {}

  asio::awaitable<Result<size_t>> read(uint64_t, std::span<const std::span<std::byte>> into) override {
    size_t wanted = 0;
    for (const std::span<std::byte> range : into)
      wanted += range.size();
    if (wanted <= left_) {
      left_ -= wanted;
      co_return wanted;
    }
    stuck = true;
    (void)co_await release_.sleep_for(std::chrono::hours(1));
    co_return Status{Code::kCancelled, "released"};
  }
  std::optional<uint64_t> size() const override { return std::nullopt; }

  bool stuck = false;

 private:
  runtime::TaskGroup& release_;
  uint64_t left_;
};

asio::awaitable<void> keep(asio::awaitable<Status> task, std::optional<Status>& result) {
  result = co_await std::move(task);
}

asio::awaitable<Status> write(Client& client, Source& source) {
  const auto written = co_await client.write("/f", source);
  co_return written ? Status{} : written.error();
}

asio::awaitable<Status> read(Client& client, std::span<std::byte> into) {
  MemorySink sink(into);
  const auto attributes = co_await client.read("/f", sink);
  co_return attributes ? Status{} : attributes.error();
}

class Cancel : public testing::Test {
 protected:
  Cancel() : tasks(cluster.simulation.executor(), cluster.simulation.clock()) {}
  ~Cancel() override { cluster.run(tasks.join()); }

  FakeCluster cluster{1};
  runtime::TaskGroup tasks;
  std::optional<Status> result;
};

TEST_F(Cancel, AWriteThatIsUnderWayGivesItsUploadUp) {
  StuckSource source(tasks, 3'000'000);
  tasks.spawn(keep(write(cluster.client(), source), result));
  cluster.simulation.run_for(1s);
  ASSERT_TRUE(source.stuck) << "several stripes are written, and the next one is under way";
  ASSERT_EQ(cluster.meta.aborts, 0);
  cluster.client().cancel();
  tasks.request_stop();  // whoever cancels a client releases its sources
  cluster.simulation.run_for(kSoon);
  ASSERT_TRUE(result) << "it should have ended";
  EXPECT_FALSE(result->ok());
  EXPECT_EQ(cluster.meta.aborts, 1);
  EXPECT_FALSE(cluster.meta.files.contains("/f"));
}

TEST_F(Cancel, AReadEndsThoughItsServersHang) {
  ASSERT_EQ(cluster.put("/f", random_bytes(2'000'000, 1)), Status{});
  for (auto& server : cluster.servers)
    server->hangs = true;
  std::vector<std::byte> bytes(2'000'000);
  tasks.spawn(keep(read(cluster.client(), bytes), result));
  cluster.simulation.run_for(1s);
  ASSERT_FALSE(result);
  cluster.client().cancel();
  cluster.simulation.run_for(kSoon);
  ASSERT_TRUE(result) << "it should have ended";
  EXPECT_FALSE(result->ok());
}

TEST_F(Cancel, NobodyWaitsForAMetaserverThatIsAway) {
  ASSERT_EQ(cluster.put("/f", random_bytes(1000, 1)), Status{});
  cluster.meta.node.crash(false);
  std::vector<std::byte> bytes(1000);
  tasks.spawn(keep(read(cluster.client(), bytes), result));
  cluster.simulation.run_for(5s);
  ASSERT_FALSE(result) << "it is patient";
  cluster.client().cancel();
  cluster.simulation.run_for(kDialLimit + kSoon);
  ASSERT_TRUE(result) << "it should have ended";
  EXPECT_EQ(result->code(), Code::kCancelled);
}

TEST_F(Cancel, NothingIsDoneAfterwards) {
  cluster.client().cancel();
  const auto bytes = random_bytes(1000, 1);
  EXPECT_EQ(cluster.put("/f", bytes).code(), Code::kCancelled);
  EXPECT_EQ(cluster.get("/f").error().code(), Code::kCancelled);
  EXPECT_EQ(cluster.meta.aborts, 0);
}

}  // namespace
}  // namespace kintsugi::client
