// Servers ask each other by connections of their own, and count who does not hear.
#include "chunkserver/service/peer_check.h"

#include <map>

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
  /// How many of all checks so far came out so. REQUIRES: called at least every 20 s.
  uint64_t count(proto::SightCheck::Outcome outcome) {
    for (const proto::SightCheck& check : servers[0].server->recorder().peer_checks().latest()) {
      EXPECT_EQ(check.peer(), endpoint(1).to_string());
      if (check.number() <= seen) continue;
      seen = check.number();
      ++counts[check.outcome()];
    }
    return counts[outcome];
  }
  void run_for(int times_20s) {
    for (int i = 0; i < times_20s; ++i) {
      simulation.run_for(20s);
      (void)count(proto::SightCheck::ANSWERED);
    }
  }
  uint64_t seen = 0;
  std::map<proto::SightCheck::Outcome, uint64_t> counts;
};

TEST(PeerCheck, APeerThatHearsIsCountedAsChecked) {
  PeerRig rig;
  rig.run_for(3);
  EXPECT_GE(rig.count(proto::SightCheck::ANSWERED), 8u);
  EXPECT_EQ(rig.count(proto::SightCheck::UNCONNECTED), 0u);
  EXPECT_EQ(rig.count(proto::SightCheck::CUT), 0u);
}

TEST(PeerCheck, APeerThatIsGoneIsUnconnected) {
  PeerRig rig;
  rig.run_for(1);
  rig.stop_server(1);
  const uint64_t before = rig.count(proto::SightCheck::ANSWERED);
  rig.run_for(2);
  EXPECT_GE(rig.count(proto::SightCheck::UNCONNECTED), 3u);
  EXPECT_EQ(rig.count(proto::SightCheck::ANSWERED), before);
}

TEST(PeerCheck, APeerThatAnswersShortMessagesOnlyIsCutOff) {
  PeerRig rig;
  // Bytes a second: 64 KiB take longer than the limit.
  rig.simulation.network().set_link("server1", 25'000, 25'000);
  rig.run_for(3);
  EXPECT_GE(rig.count(proto::SightCheck::CUT), 3u);
  EXPECT_EQ(rig.count(proto::SightCheck::UNCONNECTED), 0u);
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
