// Repairs take no more of a server's link than they may.
#include "chunkserver/repair/repair_pacer.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <gtest/gtest.h>

#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::chunkserver {
namespace {

struct PacerRig {
  PacerRig() : node(simulation, "server"), runtime(node.runtime()), pacer(runtime) {
    pacer.load = [this] { return load; };
  }
  /// Bytes per second that get through in `frames` of 128 KiB, one after the other.
  double carried(size_t frames = 200, bool urgent = false) {
    auto task = [](partial_sum::Pace& pace, size_t frames) -> asio::awaitable<void> {
      for (size_t i = 0; i < frames; ++i)
        co_await pace.pass(128 << 10);
    };
    const TimePoint began = simulation.now();
    simulation.run(task(pacer.sending(urgent), frames));
    const double seconds = std::chrono::duration<double>(simulation.now() - began).count();
    return seconds == 0 ? 0 : frames * double(128 << 10) / seconds;
  }

  simulation::Simulation simulation{1};
  simulation::SimNode node;
  runtime::Runtime runtime;
  UserLoad load;
  RepairPacer pacer;
};

TEST(RepairPacer, WithoutACapNothingWaits) {
  PacerRig rig;
  EXPECT_EQ(rig.carried(), 0);
  rig.load.link_up = 100e6;
  EXPECT_EQ(rig.carried(), 0);
}

TEST(RepairPacer, KeepsToTheCap) {
  PacerRig rig;
  rig.pacer.set_bandwidth(20'000'000);
  EXPECT_NEAR(rig.carried(), 20e6, 2e6);
}

TEST(RepairPacer, CountsHowLongRepairsWaited) {
  PacerRig rig;
  (void)rig.carried();
  EXPECT_EQ(rig.pacer.waits(), Duration::zero());
  rig.pacer.set_bandwidth(20'000'000);
  const TimePoint began = rig.simulation.now();
  (void)rig.carried();
  EXPECT_EQ(rig.pacer.waits(), rig.simulation.now() - began) << "nothing else takes time here";
}

TEST(RepairPacer, LeavesUsersTheirPartOfAKnownLink) {
  PacerRig rig;
  rig.load.link_up = 100e6;
  rig.load.user = 80e6;
  EXPECT_NEAR(rig.carried(), 15e6, 2e6);
  rig.pacer.set_bandwidth(10'000'000);
  EXPECT_NEAR(rig.carried(), 10e6, 1e6);
}

TEST(RepairPacer, ATwentiethOfTheCapIsAlwaysLeftForRepairs) {
  PacerRig rig;
  rig.load.link_up = 100e6;
  rig.load.user = 200e6;
  rig.pacer.set_bandwidth(40'000'000);
  EXPECT_NEAR(rig.carried(), 2e6, 0.2e6);
}

TEST(RepairPacer, HalvesTheCapWhileUsersAreServedAndAMomentAfterThat) {
  PacerRig rig;
  rig.pacer.set_bandwidth(20'000'000);
  rig.load.serving = 1;
  EXPECT_EQ(rig.pacer.rate(true), 10e6);
  rig.load.serving = 0;
  rig.simulation.run_for(50ms);
  EXPECT_EQ(rig.pacer.rate(true), 10e6);
  rig.simulation.run_for(60ms);
  EXPECT_EQ(rig.pacer.rate(true), 20e6);
}

TEST(RepairPacer, UsersWhoAreServedGoFirstButNotForEver) {
  PacerRig rig;
  rig.load.serving = 1;
  // 200 frames of 128 KiB are 25 MiB.
  EXPECT_NEAR(rig.carried(), double(1 << 20) / to_seconds(RepairPacer::kYieldForMiB), 30e6);
  bool passed = false;
  const auto pass = [&]() -> asio::awaitable<void> {
    co_await rig.pacer.sending().pass(8 << 20);
    passed = true;
  };
  asio::co_spawn(rig.simulation.executor(), pass(), asio::detached);
  rig.simulation.run_for(5ms);
  EXPECT_FALSE(passed);
  rig.load.serving = 0;
  rig.simulation.run_for(2ms);
  EXPECT_TRUE(passed) << "nobody waits for users that are gone";
}

TEST(RepairPacer, NoWaitIsSoLongThatARepairSeemsDead) {
  PacerRig rig;
  rig.pacer.set_bandwidth(1000);
  const TimePoint began = rig.simulation.now();
  rig.carried(3);
  EXPECT_LE(rig.simulation.now() - began, 3 * RepairPacer::kMaxWait);
}

TEST(RepairPacer, TheClustersLimitHoldsBesideTheCapButNotForUrgentRepairs) {
  PacerRig rig;
  rig.pacer.set_cluster_limit(10'000'000);
  EXPECT_NEAR(rig.carried(), 10e6, 1e6);
  EXPECT_EQ(rig.carried(200, /*urgent=*/true), 0) << "nothing holds them up";
  rig.pacer.set_bandwidth(40'000'000);
  EXPECT_NEAR(rig.carried(), 10e6, 1e6);
  EXPECT_NEAR(rig.carried(200, /*urgent=*/true), 40e6, 4e6) << "the server's own cap is for all";
  rig.pacer.set_bandwidth(5'000'000);
  EXPECT_NEAR(rig.carried(), 5e6, 0.5e6);
  rig.pacer.set_cluster_limit(0);
  rig.pacer.set_bandwidth(0);
  EXPECT_EQ(rig.carried(), 0);
}

}  // namespace
}  // namespace kintsugi::chunkserver
