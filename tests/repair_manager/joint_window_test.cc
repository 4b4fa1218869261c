#include "repair_manager/joint/joint_window.h"

#include <gtest/gtest.h>

#include "repair_manager/plan/destination.h"
#include "tests/repair_manager/fake_cluster.h"

namespace kintsugi::repair_manager {
namespace {

constexpr uint64_t kSeed = 1;

TEST(JointWindow, WhatItTookInATurnItSchedulesHoweverMuchThatIs) {
  FakeCluster cluster(kSeed, 20, {});
  simulation::SimNode node(cluster.simulation, "planner");
  const Options options;
  RepairPlanner planner(node.runtime(), options, cluster.view);
  planner.refresh();
  JointWindow window(options, planner, cluster.view);
  std::vector<QueueEntry> entries;
  for (size_t i = 0; i < 5 * window.entries(); ++i) {
    const ChunkId chunk{cluster.add_stripe(i), 0};
    cluster.view.lost.insert(chunk);
    entries.push_back({.chunk = chunk});
  }
  const TimePoint now = cluster.simulation.now();
  for (int turn = 0; turn < 3; ++turn) {
    window.trim(now);
    for (const QueueEntry& entry : entries)
      ASSERT_TRUE(window.fits(entry, now));
    EXPECT_FALSE(window.schedule(entries, entries.size()).empty());
  }
}

TEST(JointWindow, AChunkThatItCannotPlaceIsRepairedEvenWhileOthersRun) {
  FakeCluster cluster(kSeed, 13, {});
  // All destinations would have more than their rack's share, and the greedy choice takes them all the same.
  cluster.view.all_servers.at(ServerId{10}).draining = true;
  ServerView& small = cluster.view.all_servers.at(ServerId{13});
  small.rack = "rack0";
  small.free_bytes = kDestinationMarginBytes + (2 << 20);
  const StripeId moved = cluster.add_stripe(0, 1 << 20), one = cluster.add_stripe(0),
                 two = cluster.add_stripe(0);
  cluster.server(13).repair_time = 1h;
  cluster.manager.move_wanted({moved, 2}, ServerId{3}, "it runs for long", ServerId{13});
  cluster.simulation.run_for(500ms);
  ASSERT_EQ(cluster.calls.size(), 1u);
  cluster.lose({one, 0});
  cluster.lose({two, 0});
  EXPECT_TRUE(cluster.wait_until_healthy(20s));
}

}  // namespace
}  // namespace kintsugi::repair_manager
