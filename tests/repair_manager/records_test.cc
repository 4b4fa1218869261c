// What the records of repairs tell people.
#include <map>
#include <set>

#include "tests/repair_manager/fake_cluster.h"

namespace kintsugi::repair_manager {
namespace {

TEST(RepairRecords, TheTreesOfARepairAreShownWhileItRuns) {
  FakeCluster cluster(simulation::Simulation::seed_from_environment(1), 12, {});
  const StripeId stripe = cluster.add_stripe(0);
  cluster.lose({stripe, 0});
  ASSERT_TRUE(cluster.simulation.run_until([&] { return cluster.manager.status().running_size() == 1; }, 1s));
  const proto::RepairRecord record = cluster.manager.status().running(0);
  const std::set<uint64_t> helpers(record.helpers().begin(), record.helpers().end());
  std::set<uint64_t> senders, receivers;
  for (const proto::RepairEdge& edge : record.edges()) {
    senders.insert(edge.from());
    receivers.insert(edge.to());
  }
  EXPECT_EQ(senders, helpers) << "every helper sends its sum to somebody";
  EXPECT_TRUE(receivers.contains(record.destination()));
  receivers.erase(record.destination());
  for (uint64_t receiver : receivers)
    EXPECT_TRUE(helpers.contains(receiver));
  ASSERT_TRUE(cluster.wait_until_healthy());
  for (const proto::RepairRecord& ended : cluster.manager.history(10))
    EXPECT_EQ(ended.edges_size(), 0) << "a long history stays small";
}

}  // namespace
}  // namespace kintsugi::repair_manager
