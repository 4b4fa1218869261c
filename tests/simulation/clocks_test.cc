// Wall clocks of machines that differ by hours: what the metaserver signs holds all the same, and somebody says so.
#include <algorithm>

#include <fmt/format.h>

#include "common/log/log.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

constexpr size_t kServers = 12;

/// The metaserver is five hours behind, half of the servers six hours ahead of true time.
class DifferentClocks {
 public:
  explicit DifferentClocks(uint64_t seed, size_t repair_managers = 1)
      : cluster({.seed = seed, .chunkservers = kServers, .racks = 6, .repair_managers = repair_managers}) {
    log::set_sink([this](log::Level level, std::string_view line) {
      if (level == log::Level::kWarning && line.find("clock of") != std::string_view::npos)
        warnings.emplace_back(line);
    });
    cluster.set_metaserver_wall_offset(-5h);
    for (size_t server = 0; server < kServers; server += 2)
      cluster.set_wall_offset(server, 6h);
    for (size_t manager = 0; manager < repair_managers; ++manager)
      cluster.set_repair_manager_wall_offset(manager, manager % 2 == 0 ? -10h : 10h);
  }
  ~DifferentClocks() { log::set_sink({}); }

  void put_and_get(int files, const std::string& what) {
    for (int i = 0; i < files; ++i) {
      const std::string path = fmt::format("/{}-{}", what, i);
      KINTSUGI_EXPECT_OK(cluster.put(path, 10'000 + 1'000'000 * static_cast<uint64_t>(i)));
      KINTSUGI_EXPECT_OK(cluster.check(path));
    }
  }

  SimulatedCluster cluster;
  std::vector<std::string> warnings;
};

TEST(Clocks, ThatDifferByHoursHinderNeitherPutsNorGetsNorRepairs) {
  for (const uint64_t seed : seeds({1, 2, 3})) {
    DifferentClocks clocks(seed);
    KINTSUGI_ASSERT_OK(clocks.cluster.start());
    clocks.put_and_get(6, "file");
    clocks.cluster.crash_chunkserver(clocks.cluster.pick(1).front(), Crash::kKill);
    KINTSUGI_EXPECT_OK(clocks.cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(clocks.cluster.check_contents());
  }
}

TEST(Clocks, OfRepairManagersThatDifferByHoursHinderNoRepair) {
  for (const uint64_t seed : seeds({11, 12})) {
    DifferentClocks clocks(seed, 2);
    KINTSUGI_ASSERT_OK(clocks.cluster.start());
    clocks.put_and_get(6, "file");
    clocks.cluster.run_for(4s);
    clocks.cluster.crash_chunkserver(clocks.cluster.pick(1).front(), Crash::kKill);
    KINTSUGI_EXPECT_OK(clocks.cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(clocks.cluster.check_contents());
  }
}

TEST(Clocks, ThatJumpWhileTheClusterRunsHinderNobodyAfterTheNextHeartbeat) {
  for (const uint64_t seed : seeds({21, 22})) {
    DifferentClocks clocks(seed);
    KINTSUGI_ASSERT_OK(clocks.cluster.start());
    clocks.put_and_get(3, "before");
    clocks.cluster.set_metaserver_wall_offset(-400 * 24h);
    for (size_t server = 0; server < kServers; server += 3)
      clocks.cluster.set_wall_offset(server, -8h);
    clocks.cluster.run_for(2s);
    clocks.put_and_get(3, "after");
    KINTSUGI_EXPECT_OK(clocks.cluster.check_contents());
  }
}

TEST(Clocks, ThatDifferAreToldOnceAndShownForEachServer) {
  DifferentClocks clocks(31);
  KINTSUGI_ASSERT_OK(clocks.cluster.start());
  clocks.cluster.run_for(1min);
  const auto servers = clocks.cluster.run(clocks.cluster.client().list_servers());
  ASSERT_TRUE(servers) << servers.error();
  std::vector<int> hours;
  for (const proto::ServerState& server : servers->servers())
    hours.push_back(static_cast<int>(std::lround(server.clock_difference_seconds() / 3600)));
  EXPECT_EQ(std::ranges::count(hours, 11), 6);
  EXPECT_EQ(std::ranges::count(hours, 5), 6);
  // Once by each server and by the repair manager, and once of each server by the metaserver.
  EXPECT_EQ(clocks.warnings.size(), 2 * kServers + 1);
  const auto names_one = [](const std::string& line) {
    return line.find("clock of server ") != std::string::npos;
  };
  EXPECT_EQ(static_cast<size_t>(std::ranges::count_if(clocks.warnings, names_one)), kServers);
}

}  // namespace
}  // namespace kintsugi::simulation
