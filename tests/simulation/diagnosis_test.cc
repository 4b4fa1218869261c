// Faults in a cluster that is used, and what its monitor says of them: simulated daemons report as real ones do, to a real monitor.
#include <fmt/format.h>

#include "common/proto/verdicts.h"
#include "common/runtime/fault_points.h"
#include "monitoring/daemon/monitor.h"
#include "tests/simulation/diagnosis/load.h"

namespace kintsugi::simulation {
namespace {

using proto::Verdict;
using runtime::FaultAction;
using runtime::FaultPoint;

constexpr Duration kWarmUp = 15s;       // workers' totals are reported every ten seconds
constexpr Duration kNamedWithin = 10s;  // from the pass that hangs

std::string in_words(const std::vector<Verdict>& verdicts) {
  std::string text;
  for (const Verdict& verdict : verdicts) {
    text += proto::describe(verdict) + "\n";
    for (const auto& link : verdict.chain())
      text += "  " + proto::describe(link) + "\n";
    for (const std::string& why : verdict.why())
      text += "  because " + why + "\n";
  }
  return text;
}

/// A cluster under load, with a monitor that has got to know it.
class Watched {
 public:
  explicit Watched(uint64_t seed, ClusterOptions options = {}) : cluster(with_monitor(seed, options)) {}
  ~Watched() {
    cluster.heal();
    load.reset();
  }

  Status start() {
    KINTSUGI_TRY(cluster.start());
    load.emplace(cluster);
    KINTSUGI_TRY(load->start());
    cluster.run_for(kWarmUp);
    if (cluster.verdicts().empty()) return {};
    return {Code::kInternal, "before any fault: " + in_words(cluster.verdicts())};
  }

  /// Lets time pass until some verdict is so.
  bool says(const std::function<bool(const Verdict&)>& wanted, Duration within) {
    return cluster
        .wait_until(
            [&] {
              for (const Verdict& verdict : cluster.verdicts())
                if (wanted(verdict)) return Status{};
              return Status{Code::kUnavailable, "not yet"};
            },
            within)
        .ok();
  }

  SimulatedCluster cluster;
  std::optional<Load> load;

 private:
  static ClusterOptions with_monitor(uint64_t seed, ClusterOptions options) {
    options.seed = seed;
    options.clients = 4;
    options.monitor = true;
    return options;
  }
};

TEST(Diagnosis, OneSeedGivesTheSameReportsAndVerdicts) {
  const auto run = [] {
    Watched watched(4);
    KINTSUGI_EXPECT_OK(watched.start());
    watched.cluster.node(3).stop_process();
    watched.cluster.run_for(8s);
    const auto& counters = watched.cluster.monitor().intake().counters();
    return fmt::format("{} events, {} reports, {} bytes\n{}", watched.cluster.event_hash(), counters.accepted,
                       counters.bytes, in_words(watched.cluster.verdicts()));
  };
  const std::string first = run();
  EXPECT_NE(first.find("server-3"), std::string::npos) << first;
  EXPECT_EQ(run(), first);
}

TEST(Diagnosis, AHangAtAFaultPointOfAServerIsNamedWithItsRegion) {
  struct Case {
    uint64_t seed;
    FaultPoint point;
    const char* detail;
    const char* region;
  };
  for (const Case& each : {Case{1, FaultPoint::kOwnSum, "", "partial_sum_own"},
                           Case{2, FaultPoint::kDiskWrite, "", "chunkserver."},
                           Case{3, FaultPoint::kServeStream, "ReadChunk", "ReadChunk"}}) {
    SCOPED_TRACE(each.seed);
    Watched watched(each.seed);
    SimulatedCluster& cluster = watched.cluster;
    KINTSUGI_ASSERT_OK(watched.start());
    const size_t server = cluster.pick(1).front();
    runtime::FaultPoints& faults = cluster.node(server).faults();
    ASSERT_TRUE(
        faults.set({.point = each.point, .action = FaultAction::kHang, .detail = each.detail, .times = 1}));
    KINTSUGI_ASSERT_OK(cluster.wait_until(
        [&] {
          return faults.list().front().happened > 0 ? Status{} : Status{Code::kUnavailable, "not passed"};
        },
        20s));
    EXPECT_TRUE(watched.says(
        [&](const Verdict& verdict) {
          return verdict.server() == SimulatedCluster::name(server) &&
                 verdict.region().find(each.region) != std::string::npos;
        },
        kNamedWithin))
        << in_words(cluster.verdicts());
    for (const Verdict& verdict : cluster.verdicts())
      EXPECT_EQ(verdict.server(), SimulatedCluster::name(server)) << in_words(cluster.verdicts());
  }
}

}  // namespace
}  // namespace kintsugi::simulation
