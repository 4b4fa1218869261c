// Snapshots, quotas and the trash on a whole cluster whose servers crash: what a snapshot shows is repaired like everything else
// and stays what it was, its space comes back, and a quota is exact whoever died while it was used.
#include <gtest/gtest.h>

#include "tests/expect_ok.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint64_t kFiles = 6;

std::string file(uint64_t number) {
  return fmt::format("/d/file-{}", number);
}

/// Repeats what a crash of the metaserver left undecided; `settled` is the answer to what had been done already.
Status insist(SimulatedCluster& cluster, const std::function<asio::awaitable<Status>()>& operation,
              Code settled) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const Status status = cluster.run(operation());
    if (status.ok() || (attempt > 0 && status.code() == settled)) return {};
    if (status.code() != Code::kUnavailable && status.code() != Code::kDeadlineExceeded) return status;
    cluster.run_for(1s);
  }
  return {Code::kDeadlineExceeded, "it was never answered"};
}

void crash_something(SimulatedCluster& cluster) {
  if (cluster.random_below(2) == 0) {
    cluster.crash_metaserver();
    cluster.run_for(cluster.random_time(0s, 5s));
    cluster.restart_metaserver();
    return;
  }
  const size_t victim = cluster.pick(1).front();
  cluster.crash_chunkserver(victim, Crash::kPower);
  cluster.run_for(cluster.random_time(0s, 5s));
  cluster.restart_chunkserver(victim);
}

TEST(SnapshotsInACluster, ShowTheSameBytesThroughCrashesAndRepairs) {
  for (const uint64_t seed : seeds({1, 2, 3})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_ASSERT_OK(cluster.run(cluster.client().make_directory("/d", false)));
    std::map<std::string, std::map<uint64_t, Bytes>> shown;  // by snapshot and file
    for (int step = 0; step < 40; ++step) {
      const uint64_t number = cluster.random_below(kFiles);
      switch (cluster.random_below(6)) {
        case 0:
        case 1: {
          const auto put = cluster.start_put(file(number), 1 + cluster.random_below(3'000'000));
          if (cluster.random_below(3) == 0) crash_something(cluster);
          KINTSUGI_EXPECT_OK(cluster.finish(put));
          break;
        }
        case 2:
          // Removals are not repeated: one over a connection that a crash has left behind would end as nobody knows.
          ASSERT_TRUE(cluster.run(cluster.client().stat("/")));
          if (cluster.exists(file(number))) KINTSUGI_EXPECT_OK(cluster.remove(file(number)));
          break;
        case 3: {
          const std::string name = fmt::format("s{}", step);
          std::map<uint64_t, Bytes> now;
          for (uint64_t i = 0; i < kFiles; ++i)
            if (cluster.exists(file(i))) now[i] = *cluster.get(file(i));
          if (cluster.random_below(3) == 0) crash_something(cluster);
          KINTSUGI_ASSERT_OK(insist(
              cluster, [&] { return cluster.client().create_snapshot("/d", name); }, Code::kAlreadyExists));
          shown[name] = std::move(now);
          break;
        }
        case 4: {
          if (shown.size() < 3) break;
          const std::string name =
              std::next(shown.begin(), static_cast<long>(cluster.random_below(shown.size())))->first;
          KINTSUGI_ASSERT_OK(
              insist(cluster, [&] { return cluster.client().delete_snapshot("/d", name); }, Code::kNotFound));
          shown.erase(name);
          if (cluster.random_below(2) == 0) crash_something(cluster);
          break;
        }
        default: crash_something(cluster);
      }
    }
    const auto check = [&] {
      for (const auto& [name, files] : shown) {
        for (uint64_t i = 0; i < kFiles; ++i) {
          const auto read = cluster.get(fmt::format("/d/.snapshots/{}/file-{}", name, i));
          const auto known = files.find(i);
          if (known == files.end()) {
            EXPECT_EQ(read.has_error() ? read.error().code() : Code::kOk, Code::kNotFound);
          } else {
            ASSERT_TRUE(read) << read.error();
            EXPECT_TRUE(*read == known->second) << name << " " << i;
          }
        }
      }
    };
    check();
    // More servers are lost, one after the other, than a stripe survives without repairs.
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    for (const size_t lost : cluster.pick(3)) {
      cluster.crash_chunkserver(lost, Crash::kKill);
      KINTSUGI_EXPECT_OK(cluster.wait_until_dead(lost));
      KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    }
    check();
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    cluster.restart_all();
    for (const auto& [name, files] : shown)
      KINTSUGI_EXPECT_OK(cluster.run(cluster.client().delete_snapshot("/d", name)));
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    cluster.run_for(2h);  // what nobody knows is only collected when no upload can own it any more
    KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks());
    const auto left = cluster.run(cluster.client().list_snapshots());
    ASSERT_TRUE(left);
    EXPECT_TRUE(left->snapshots().empty());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(QuotasInACluster, AreExactWhoeverDiesWhileTheyAreUsed) {
  for (const uint64_t seed : seeds({1, 2, 3, 4, 5, 6})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_ASSERT_OK(cluster.run(cluster.client().make_directory("/d", false)));
    constexpr uint64_t kMost = 3'000'000;
    KINTSUGI_ASSERT_OK(cluster.run(cluster.client().set_quota("/d", kMost, std::nullopt)));
    int refused = 0;
    for (int step = 0; step < 30; ++step) {
      std::vector<SimulatedCluster::OperationPtr> puts;
      for (uint64_t i = 0; i < 3; ++i)
        puts.push_back(cluster.start_put(file(cluster.random_below(kFiles) % 2 * 3 + i),
                                         1 + cluster.random_below(1'200'000)));
      if (cluster.random_below(3) == 0) crash_something(cluster);
      for (const auto& put : puts)
        if (cluster.finish(put).code() == Code::kQuota) ++refused;
      const auto quota = cluster.run(cluster.client().quotas_at("/d"));
      const auto usage = cluster.run(cluster.client().disk_usage("/d"));
      ASSERT_TRUE(quota && usage);
      ASSERT_EQ(quota->quotas_size(), 1);
      EXPECT_EQ(quota->quotas(0).bytes(), usage->bytes());
      EXPECT_EQ(quota->quotas(0).files(), usage->files() + usage->directories() - 1);
      EXPECT_LE(usage->bytes(), kMost);
    }
    EXPECT_GT(refused, 0);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(TrashInACluster, GivesFilesBackWithTheirBytes) {
  for (const uint64_t seed : seeds({1, 2})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_ASSERT_OK(cluster.run(cluster.client().make_directory("/d", false)));
    KINTSUGI_ASSERT_OK(cluster.run(cluster.client().set_trash("/d", 1h)));
    KINTSUGI_ASSERT_OK(cluster.put("/d/a", 2'000'000));
    KINTSUGI_ASSERT_OK(cluster.put("/d/b", 1'000'000));
    const Bytes bytes = *cluster.get("/d/a");
    KINTSUGI_ASSERT_OK(cluster.remove("/d/a"));
    KINTSUGI_ASSERT_OK(cluster.remove("/d/b"));
    crash_something(cluster);
    const auto kept = cluster.run(cluster.client().list_trash("/d"));
    ASSERT_TRUE(kept) << kept.error();
    ASSERT_EQ(kept->entries_size(), 2);
    const auto path = cluster.run(cluster.client().restore_trash("/d", kept->entries(0).entry(), "/d/c"));
    ASSERT_TRUE(path) << path.error();
    const auto back = cluster.get("/d/c");
    ASSERT_TRUE(back) << back.error();
    EXPECT_TRUE(*back == bytes);
    cluster.run_for(3h);
    KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks());
    EXPECT_EQ(cluster.run(cluster.client().list_trash("/d"))->entries_size(), 0);
  }
}

}  // namespace
}  // namespace kintsugi::simulation
