// Servers ask each other by connections of their own, and count who does not hear.
#include "chunkserver/service/peer_check.h"

#include "tests/chunkserver/cluster_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

struct PeerRig : ClusterRig {
  PeerRig() : ClusterRig(2) {
    stop_server(0);
    Options options;
    options.listen = endpoint(0);
    options.metaserver = {"meta", 7000};
    options.disks = {"/disk"};
    options.check_peers = true;
    servers[0].runtime = std::make_unique<runtime::Runtime>(servers[0].node->runtime());
    servers[0].server = std::make_unique<ChunkServer>(*servers[0].runtime, options, secret);
    KINTSUGI_ASSERT(simulation.run(servers[0].server->start()).ok());
    meta.probe_address = endpoint(1).to_string();
  }
  sight::TargetTotals totals() {
    for (const sight::TargetTotals& target : servers[0].server->recorder().live().targets().read())
      if (endpoint(1).to_string() == target.name) return target;
    return {};
  }
};

TEST(PeerCheck, APeerThatHearsIsCountedAsChecked) {
  PeerRig rig;
  rig.simulation.run_for(60s);
  const sight::TargetTotals totals = rig.totals();
  EXPECT_GE(totals.checks, 8u);
  EXPECT_EQ(totals.checks_unconnected, 0u);
  EXPECT_EQ(totals.checks_cut, 0u);
}

TEST(PeerCheck, APeerThatIsGoneIsUnconnected) {
  PeerRig rig;
  rig.simulation.run_for(20s);
  rig.stop_server(1);
  const uint64_t before = rig.totals().checks;
  rig.simulation.run_for(30s);
  EXPECT_GE(rig.totals().checks_unconnected, 3u);
  EXPECT_EQ(rig.totals().checks_unconnected, rig.totals().checks - before);
}

TEST(PeerCheck, APeerThatAnswersShortMessagesOnlyIsCutOff) {
  PeerRig rig;
  // Bytes a second: 64 KiB take longer than the limit.
  rig.simulation.network().set_link("server1", 25'000, 25'000);
  rig.simulation.run_for(60s);
  EXPECT_GE(rig.totals().checks_cut, 3u);
  EXPECT_EQ(rig.totals().checks_unconnected, 0u);
}

TEST(PeerCheck, StopsAtOnceWhileItWaitsForAnAnswer) {
  PeerRig rig;
  rig.simulation.network().set_link("server1", 1'000, 1'000);
  rig.simulation.run_for(30s);
  const TimePoint before = rig.simulation.clock().now();
  rig.stop_server(0);
  EXPECT_LE(rig.simulation.clock().now() - before, 1s);
}

}  // namespace
}  // namespace kintsugi::chunkserver
