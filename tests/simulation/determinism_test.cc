// A whole cluster is replayed by its seed.
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

uint64_t hash_of_a_run(uint64_t seed) {
  SimulatedCluster cluster({.seed = seed});
  KINTSUGI_EXPECT_OK(cluster.start());
  KINTSUGI_EXPECT_OK(cluster.put("/file", 7'000'000));
  const auto put = cluster.start_put("/other", 9'000'000);
  cluster.run_for(cluster.random_time(0ms, 50ms));
  const size_t lost = cluster.pick(1).front();
  cluster.crash_chunkserver(lost, Crash::kPower);
  KINTSUGI_EXPECT_OK(cluster.finish(put));
  cluster.crash_metaserver();
  cluster.run_for(1s);
  cluster.restart_metaserver();
  KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
  KINTSUGI_EXPECT_OK(cluster.check_contents());
  return cluster.event_hash();
}

TEST(Determinism, OneSeedGivesOneRunAndAnotherSeedAnother) {
  const uint64_t first = hash_of_a_run(1);
  EXPECT_EQ(hash_of_a_run(1), first);
  EXPECT_NE(hash_of_a_run(2), first);
}

}  // namespace
}  // namespace kintsugi::simulation
