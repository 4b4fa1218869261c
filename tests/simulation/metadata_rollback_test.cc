// Somebody puts an older copy of the metadata in place, while clients and servers go on.
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

bool in_doubt(SimulatedCluster& cluster) {
  const auto status = cluster.run(cluster.client().metadata_status());
  return status && status->has_doubt();
}

TEST(MetadataRollback, LosesNothingHoweverLongItLastsOnceTheRightMetadataIsBack) {
  for (const uint64_t seed : seeds({1, 2, 3, 4})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 4; ++i)
      KINTSUGI_EXPECT_OK(cluster.put(fmt::format("/old-{}", i), cluster.random_below(4'000'000)));
    const auto older = cluster.copy_metadata();
    // Sometimes the copy is of the same epoch as what comes after it.
    if (cluster.random_below(2) == 0) {
      cluster.crash_metaserver();
      cluster.restart_metaserver();
    }
    cluster.run_for(12s);  // until servers are told where this metadata stands
    for (int i = 0; i < 4; ++i)
      KINTSUGI_EXPECT_OK(cluster.put(fmt::format("/new-{}", i), cluster.random_below(4'000'000)));
    KINTSUGI_EXPECT_OK(cluster.put("/old-0", 3'000'000));
    cluster.run_for(3s);
    cluster.crash_metaserver();
    const auto newer = cluster.copy_metadata();

    cluster.put_back_metadata(older);
    if (cluster.random_below(2) == 0) {
      for (const size_t server : cluster.pick(2)) {
        cluster.crash_chunkserver(server, Crash::kPower);
        cluster.restart_chunkserver(server);
      }
    }
    cluster.restart_metaserver();
    // Longer than any upload is protected, and with two reports of every server.
    cluster.run_for(2h + 10min);
    EXPECT_TRUE(in_doubt(cluster)) << "seed " << seed;

    cluster.crash_metaserver();
    cluster.put_back_metadata(newer);
    cluster.restart_metaserver();
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    cluster.run_for(2h);
    EXPECT_FALSE(in_doubt(cluster)) << "seed " << seed;
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks());
  }
}

TEST(MetadataRollback, TheClusterGoesOnOnceTheOlderMetadataIsAccepted) {
  for (const uint64_t seed : seeds({11, 12})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11});
    KINTSUGI_ASSERT_OK(cluster.start());
    const auto older = cluster.copy_metadata();
    cluster.crash_metaserver();
    cluster.restart_metaserver();
    KINTSUGI_EXPECT_OK(cluster.put("/lost", 3'000'000));
    cluster.run_for(12s);
    cluster.crash_metaserver();
    cluster.put_back_metadata(older);
    cluster.restart_metaserver();
    KINTSUGI_EXPECT_OK(cluster.wait_until(
        [&] { return in_doubt(cluster) ? Status{} : Status{Code::kUnavailable, "no doubt yet"}; }, 1min));
    KINTSUGI_EXPECT_OK(cluster.run(cluster.client().accept_metadata()));
    EXPECT_EQ(cluster.run(cluster.client().stat("/lost")).error().code(), Code::kNotFound);
    KINTSUGI_EXPECT_OK(cluster.put("/after", 3'000'000));
    KINTSUGI_EXPECT_OK(cluster.remove("/after"));
    cluster.run_for(2h);
    EXPECT_FALSE(in_doubt(cluster));
    const auto kept = cluster.quarantine();
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->size(), 9u) << "what was lost is still there, what was removed is not";
    KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks());
  }
}

}  // namespace
}  // namespace kintsugi::simulation
