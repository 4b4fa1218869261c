// From counters of links, by way of the detectors, the alarms and the metaserver, to a server that others go around.
#include <cmath>
#include <map>

#include "tests/monitoring/daemon_rig.h"

namespace kintsugi::monitoring {
namespace {

/// Servers that call each other, and report how long the answers took.
class Callers {
 public:
  explicit Callers(MonitorRig& rig) : rig_(rig) {}

  /// Links into server `slow` (0: none) take six times as long.
  void report_for(int seconds, uint64_t slow) {
    for (int i = 0; i < seconds; ++i) {
      calls_ += 100;
      for (uint64_t server = 1; server <= MonitorRig::kServers; ++server) {
        proto::SightReport report = rig_.report(server);
        for (uint64_t callee = 1; callee <= MonitorRig::kServers; ++callee)
          if (callee != server) add_link(report, server, callee, callee == slow ? 6 : 1);
        EXPECT_TRUE(rig_.send(report));
      }
      rig_.simulation.run_for(1s);
    }
  }

 private:
  void add_link(proto::SightReport& report, uint64_t server, uint64_t callee, double factor) {
    const double noise = 1 + 0.1 * std::sin(static_cast<double>(calls_ / 100 * 7 + server * 3 + callee));
    uint64_t& busy = busy_[{server, callee}];
    busy += static_cast<uint64_t>(100 * 1e6 * factor * noise);
    proto::SightDevice& link = *report.add_devices();
    link.set_peer(true);
    link.set_name("10.0.1." + std::to_string(callee) + ":1");
    link.set_submitted(calls_);
    link.set_completed(calls_);
    link.set_busy_ns(busy);
    link.set_bytes_in(calls_ * 65536);
  }

  MonitorRig& rig_;
  uint64_t calls_ = 0;
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> busy_;
};

TEST(SlowLinks, OfMostToOneServerAreToldToTheMetaserverAndTheServerIsGoneAround) {
  MonitorRig rig;
  Callers callers(rig);
  callers.report_for(120, 0);
  EXPECT_EQ(rig.diagnose().verdicts_size(), 0);
  EXPECT_EQ(rig.meta->registered.slow_size(), 0);

  callers.report_for(90, /*slow=*/2);
  ASSERT_EQ(rig.meta->registered.slow_size(), 1);
  const proto::SlowServer slow = rig.meta->registered.slow(0);
  EXPECT_EQ(slow.server_id(), 102u);
  EXPECT_EQ(slow.part(), proto::SlowServer::LINK);
  EXPECT_GT(slow.factor(), 2);
  ASSERT_EQ(rig.diagnose().verdicts_size(), 1);
  EXPECT_EQ(rig.diagnose().verdicts(0).server(), "server-2");
  EXPECT_FALSE(rig.diagnose().verdicts(0).gone_around()) << "the metaserver has not said so";

  *rig.meta->servers.mutable_servers(1)->mutable_slow() = slow;
  callers.report_for(3, /*slow=*/2);
  EXPECT_TRUE(rig.diagnose().verdicts(0).gone_around());
}

}  // namespace
}  // namespace kintsugi::monitoring
