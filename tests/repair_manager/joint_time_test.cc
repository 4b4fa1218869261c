#include <gtest/gtest.h>

#include "repair_manager/manager/repair_manager.h"
#include "tests/benchmarks/lost_server.h"
#include "tests/simulation/runtime/sim_node.h"

// How long whole servers take to come back by the joint schedule, on links that are a fluid, against what the
// placement of their stripes' chunks allows at best.
namespace kintsugi::repair_manager {
namespace {

using what_if::FluidSettings;

struct Times {
  double seconds = 0, bound = 0;
};

Times repair(const FluidSettings& settings, uint64_t seed) {
  simulation::Simulation simulation(seed);
  what_if::FluidCluster cluster(simulation.executor(), simulation.clock(),
                                what_if::lost_server(settings, simulation.random()));
  const double bound = what_if::placement_bound_seconds(cluster, settings);
  simulation::SimNode node(simulation, "meta");
  RepairManager manager(node.runtime(), {.min_deadline = 1h, .link = {.bytes_per_second = settings.rate}},
                        cluster, nullptr);
  const TimePoint began = simulation.now();
  manager.start();
  manager.server_dead(what_if::kDead, cluster.missing_chunks()[what_if::kDead]);
  EXPECT_TRUE(simulation.run_until([&] { return cluster.commits().size() == settings.lost; }, 1h));
  const std::chrono::duration<double> took = simulation.now() - began;
  EXPECT_EQ(manager.status().failed(), 0u);
  simulation.run_for(1s);
  simulation.run(manager.stop());
  return {.seconds = took.count(), .bound = bound};
}

Times mean(const FluidSettings& settings) {
  Times mean;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Times one = repair(settings, seed);
    mean.seconds += one.seconds / 3;
    mean.bound += one.bound / 3;
  }
  return mean;
}

TEST(JointTime, AServerOfFewChunksComesBackNearlyAsFastAsItsStripesAllow) {
  // With helpers for whole chunks only it would be 1.52 and 1.057 times as long.
  const Times five = mean({.lost = 5});
  EXPECT_LT(five.seconds, 1.25 * five.bound);
  const Times fifty = mean({.lost = 50});
  EXPECT_LT(fifty.seconds, 1.05 * fifty.bound);
}

TEST(JointTime, AServerOfManyChunksKeepsAllLinksBusyUntilTheEnd) {
  // Filled in the queue's order, links stay 7 % short.
  const Times many = mean({.lost = 300});
  EXPECT_LT(many.seconds, 1.055 * many.bound);
}

}  // namespace
}  // namespace kintsugi::repair_manager
