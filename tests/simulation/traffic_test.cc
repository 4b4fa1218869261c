// Whoever looks at the cluster sees how many bytes went to each disk and peer, and came from it.
#include "tests/expect_ok.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

struct Traffic {
  uint64_t in = 0, out = 0;
};

/// Over all that wait for disks (`of_disks`) or for peers, on machines whose names begin so.
Traffic traffic(const SimulatedCluster& cluster, std::string_view machines, bool of_disks) {
  Traffic sum;
  for (const auto& [machine, recorder] : cluster.recorders()) {
    if (!machine.starts_with(machines)) continue;
    for (const sight::TargetTotals& target : recorder->live().targets().read()) {
      if (target.device != of_disks) continue;
      sum.in += target.bytes_in;
      sum.out += target.bytes_out;
    }
  }
  return sum;
}

TEST(Traffic, OfDisksAndPeersIsCountedWhereBytesAreAskedFor) {
  constexpr uint64_t kBytes = 6'000'000;
  constexpr uint64_t kStored = kBytes * 9 / 6;  // RS(6,3)
  constexpr uint64_t kPadded = kStored + kStored / 4;
  SimulatedCluster cluster({.seed = 6, .repairs = {.shape = proto::CHAIN}, .dead_after = 20s});
  ASSERT_EQ(cluster.start(), Status{});
  ASSERT_EQ(cluster.put("/file", kBytes), Status{});
  EXPECT_GE(traffic(cluster, "client", false).out, kStored);
  EXPECT_LE(traffic(cluster, "client", false).out, kPadded);
  EXPECT_GE(traffic(cluster, "server", true).out, kStored);
  EXPECT_LE(traffic(cluster, "server", true).out, kPadded);
  EXPECT_EQ(traffic(cluster, "client", false).in, 0u);

  ASSERT_TRUE(cluster.get("/file"));
  EXPECT_GE(traffic(cluster, "client", false).in, kBytes);
  EXPECT_GE(traffic(cluster, "server", true).in, kBytes);
  EXPECT_LE(traffic(cluster, "server", true).in, kPadded);

  // A repair along a chain: each server but the first gets a sum of one chunk from the one before it.
  const auto stripe = cluster.stripes_of("/file").at(0);
  const size_t lost = cluster.server_of(ServerId{stripe.chunks(1).server_id()}).value();
  EXPECT_EQ(traffic(cluster, "server", false).in, 0u);
  cluster.crash_chunkserver(lost, Crash::kKill);
  ASSERT_EQ(cluster.wait_until_dead(lost), Status{});
  const auto repaired = [&] {
    return cluster.repair_history().empty() ? Status{Code::kUnavailable, "no repair"} : Status{};
  };
  ASSERT_EQ(cluster.wait_until(repaired, 2min), Status{});
  EXPECT_GE(traffic(cluster, "server", false).in, kBytes);
}

}  // namespace
}  // namespace kintsugi::simulation
