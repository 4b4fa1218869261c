// Files that are replaced while somebody reads them.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "common/runtime/event.h"
#include "tests/simulation/cluster/client_program.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

constexpr uint64_t kFileBytes = 90'000'000;  ///< more than a client reads ahead

/// Takes the first bytes, and the next ones when it is told to.
class PausingSink final : public client::Sink {
 public:
  explicit PausingSink(const runtime::Runtime& runtime) : go_on_(runtime) {}
  asio::awaitable<Status> write(uint64_t, std::span<const std::span<const std::byte>> from) override {
    for (const auto& part : from)
      bytes.insert(bytes.end(), part.begin(), part.end());
    while (paused)
      co_await go_on_.wait();
    co_return Status{};
  }
  void go_on() {
    paused = false;
    go_on_.notify_all();
  }

  std::vector<std::byte> bytes;
  bool paused = true;

 private:
  runtime::Event go_on_;
};

struct Read {
  std::optional<Result<proto::Attributes>> result;
};

asio::awaitable<void> read(ClientProgram& program, PausingSink& sink, Read& read) {
  ClientProgram::Use use(program);
  read.result = co_await program.client().read("/file", sink);
}

TEST(ReplacedRead, NeverMixesTheBytesOfTwoFiles) {
  for (const uint64_t seed : seeds({1, 2})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 10});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_ASSERT_OK(cluster.put("/file", kFileBytes));
    KINTSUGI_ASSERT_OK(cluster.put("/other", kFileBytes));
    SimNode clock(cluster.simulation(), "clock of the sink");
    const runtime::Runtime runtime = clock.runtime();
    PausingSink sink(runtime);
    Read outcome;
    asio::co_spawn(cluster.simulation().executor(), read(cluster.client_program(), sink, outcome),
                   asio::detached);
    cluster.run_for(1s);
    const size_t before = sink.bytes.size();
    EXPECT_GT(before, 0u);
    const Status renamed = cluster.run(cluster.client().rename("/other", "/file", true));
    KINTSUGI_EXPECT_OK(renamed);
    cluster.run_for(5s);  // the chunks of the former file are deleted
    sink.go_on();
    ASSERT_TRUE(cluster.simulation().run_until([&] { return outcome.result.has_value(); }));
    ASSERT_FALSE(*outcome.result) << "its chunks are gone";
    EXPECT_EQ(outcome.result->error().code(), Code::kConflict) << outcome.result->error();
  }
}

TEST(ReplacedRead, BeginsAgainWhenNothingWasHandedOutYet) {
  SimulatedCluster cluster({.seed = 3, .chunkservers = 10});
  KINTSUGI_ASSERT_OK(cluster.start());
  KINTSUGI_ASSERT_OK(cluster.put("/file", 3'000'000));
  // The chunks take longer to arrive than it takes to replace the file and to delete them.
  for (size_t server = 0; server < cluster.chunkservers(); ++server)
    cluster.hang(server);
  const auto check = cluster.start_check("/file");
  cluster.run_for(100ms);
  for (size_t server = 0; server < cluster.chunkservers(); ++server) {
    cluster.crash_chunkserver(server, Crash::kKill);
    cluster.unhang(server);
    cluster.restart_chunkserver(server);
  }
  KINTSUGI_EXPECT_OK(cluster.put("/file", 2'000'000));
  const Status read = cluster.finish(check);
  EXPECT_NE(read.code(), Code::kConflict) << read;
  EXPECT_NE(read.code(), Code::kCorrupt) << read;
}

}  // namespace
}  // namespace kintsugi::simulation
