// Faults in a cluster that is used, and what its monitor says of them: simulated daemons report as real ones do, to a real monitor.
#include <algorithm>
#include <set>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <fmt/format.h>

#include "client/lib/files/open_files.h"
#include "common/proto/verdicts.h"
#include "common/runtime/fault_points.h"
#include "monitoring/daemon/monitor.h"
#include "tests/simulation/cluster/client_program.h"
#include "tests/simulation/diagnosis/load.h"

namespace kintsugi::simulation {
namespace {

using proto::Verdict;
using runtime::FaultAction;
using runtime::FaultPoint;

constexpr Duration kWarmUp = 15s;       // workers' totals are reported every ten seconds
constexpr Duration kNamedWithin = 10s;  // from the pass that hangs
constexpr Duration kPassedWithin = 20s;

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

  /// Somebody hangs in it from the next pass on. REQUIRES: no other fault is set on this machine.
  Status hang(SimNode& node, FaultPoint point, std::string detail = {},
              FaultAction action = FaultAction::kHang) {
    runtime::FaultPoints& faults = node.faults();
    const auto set = faults.set({.point = point, .action = action, .detail = std::move(detail), .times = 1});
    if (!set) return set.error();
    const auto passed = [&] {
      return faults.list().front().happened > 0 ? Status{} : Status{Code::kUnavailable, "nobody came by"};
    };
    return cluster.wait_until(passed, kPassedWithin);
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

class Diagnosis : public testing::Test {
 protected:
  void SetUp() override {
#ifndef KINTSUGI_FAULT_POINTS
    GTEST_SKIP() << "no fault points are built in";
#endif
    if (!runtime::kSightCompiled) GTEST_SKIP() << "open work is not recorded in this build";
  }
};

TEST_F(Diagnosis, OneSeedGivesTheSameReportsAndVerdicts) {
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

TEST_F(Diagnosis, AHangAtAFaultPointOfAServerIsNamedWithItsRegion) {
  struct Case {
    uint64_t seed;
    FaultPoint point;
    const char* detail;
    const char* region;
  };
  for (const Case& each : {Case{1, FaultPoint::kOwnSum, "", "partial_sum_own"},
                           Case{2, FaultPoint::kDiskWrite, "", "chunkserver."},
                           Case{3, FaultPoint::kServeStream, "ReadChunk", "ReadChunk"},
                           Case{6, FaultPoint::kWake, "record", "chunkserver."},
                           Case{7, FaultPoint::kComplete, "disk call", "chunkserver."}}) {
    SCOPED_TRACE(each.seed);
    Watched watched(each.seed);
    SimulatedCluster& cluster = watched.cluster;
    KINTSUGI_ASSERT_OK(watched.start());
    const size_t server = cluster.pick(1).front();
    KINTSUGI_ASSERT_OK(watched.hang(cluster.node(server), each.point, each.detail));
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

TEST_F(Diagnosis, WhatARepairManagerAsksTheMetaserverIsAWaitOfTheRepair) {
  Watched watched(5);
  SimulatedCluster& cluster = watched.cluster;
  KINTSUGI_ASSERT_OK(watched.start());
  KINTSUGI_ASSERT_OK(watched.hang(cluster.metaserver_node(), FaultPoint::kServeCall, "DescribeStripes"));
  const auto names_metaserver = [](const Verdict& verdict) {
    return verdict.server() == "metaserver" && verdict.region() == "serve.DescribeStripes";
  };
  EXPECT_TRUE(watched.says(names_metaserver, kNamedWithin)) << in_words(cluster.verdicts());
  for (const Verdict& verdict : cluster.verdicts())
    EXPECT_EQ(verdict.server(), "metaserver") << in_words(cluster.verdicts());
}

TEST_F(Diagnosis, AClientThatIsStoppedWithAWriteLeaseIsNamedByWhoWaitsForIt) {
  Watched watched(9);
  SimulatedCluster& cluster = watched.cluster;
  KINTSUGI_ASSERT_OK(watched.start());
  const size_t owner = 1, other = 2;
  auto files =
      cluster.client_program(owner).client().open_files({.dirty_bytes = 4 << 20, .lease_directories = true});
  KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
  const auto make = [&](uint64_t parent, const char* name, proto::Attributes::Type type) {
    proto::MakeInodeRequest request;
    request.set_parent(parent);
    request.set_name(name);
    request.set_type(type);
    request.set_mode(0755);
    return cluster.run(files->names().make({}, std::move(request)));
  };
  const auto directory = make(1, "leased", proto::Attributes::DIRECTORY);
  ASSERT_TRUE(directory) << directory.error();
  cluster.run_for(
      6s);  // ids are reserved, so that names can be made under a lease, and the session tells its process
  ASSERT_TRUE(make(directory->inode(), "one", proto::Attributes::FILE));
  ASSERT_TRUE(files->session().has_lease(directory->inode()));
  cluster.client_node(owner).stop_process();
  const auto list = [](ClientProgram& program) -> asio::awaitable<void> {
    const ClientProgram::Use use(program);
    (void)co_await program.client().list("/leased");
  };
  asio::co_spawn(cluster.simulation().executor(), list(cluster.client_program(other)), asio::detached);
  EXPECT_TRUE(watched.says(
      [&](const Verdict& verdict) {
        return verdict.kind() == Verdict::CLIENT &&
               verdict.server() == SimulatedCluster::client_name(owner) && !verdict.masked();
      },
      kNamedWithin))
      << in_words(cluster.verdicts());
  for (const Verdict& verdict : cluster.verdicts())
    EXPECT_NE(verdict.server(), "metaserver") << in_words(cluster.verdicts());
  cluster.client_node(owner).continue_process();
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

bool names_link(const Verdict& verdict, const std::string& a, const std::string& b) {
  return verdict.kind() == Verdict::LINK && std::set{verdict.server(), verdict.peer()} == std::set{a, b};
}

TEST_F(Diagnosis, ALostAnswerNamesWhatServedTheRequest) {
  Watched watched(11);
  SimulatedCluster& cluster = watched.cluster;
  KINTSUGI_ASSERT_OK(watched.start());
  // The client that repairs is told nothing.
  KINTSUGI_ASSERT_OK(
      watched.hang(cluster.metaserver_node(), FaultPoint::kAnswer, "RunRepair", FaultAction::kDrop));
  const auto names_server = [](const Verdict& verdict) {
    return verdict.kind() == Verdict::UNANSWERED && verdict.server() == "metaserver" &&
           verdict.peer().empty() && verdict.region() == "serve.RunRepair";
  };
  EXPECT_TRUE(watched.says(names_server, kNamedWithin)) << in_words(cluster.verdicts());
}

TEST_F(Diagnosis, TwoThatAreCutOffFromEachOtherAreNamedAsALink) {
  Watched watched(12);
  SimulatedCluster& cluster = watched.cluster;
  KINTSUGI_ASSERT_OK(watched.start());
  cluster.network().cut("metaserver", "client-1");
  EXPECT_TRUE(watched.says(
      [](const Verdict& verdict) { return names_link(verdict, "metaserver", "client-1"); }, kNamedWithin))
      << in_words(cluster.verdicts());
}

TEST_F(Diagnosis, TwoFaultsGiveTwoVerdicts) {
  Watched watched(21);
  SimulatedCluster& cluster = watched.cluster;
  KINTSUGI_ASSERT_OK(watched.start());
  KINTSUGI_ASSERT_OK(watched.hang(cluster.node(2), FaultPoint::kServeStream, "ReadChunk"));
  KINTSUGI_ASSERT_OK(watched.hang(cluster.node(7), FaultPoint::kDiskWrite));
  const auto of = [](size_t server) {
    return [server](const Verdict& verdict) { return verdict.server() == SimulatedCluster::name(server); };
  };
  EXPECT_TRUE(watched.says(of(2), kNamedWithin)) << in_words(cluster.verdicts());
  EXPECT_TRUE(watched.says(of(7), kNamedWithin)) << in_words(cluster.verdicts());
  for (const Verdict& verdict : cluster.verdicts())
    EXPECT_TRUE(of(2)(verdict) || of(7)(verdict)) << in_words(cluster.verdicts());
}

TEST_F(Diagnosis, ALoopAndAStopAreToldFromEachOther) {
  Watched watched(31);
  SimulatedCluster& cluster = watched.cluster;
  KINTSUGI_ASSERT_OK(watched.start());
  cluster.node(4).stop_process();
  EXPECT_TRUE(watched.says(
      [](const Verdict& v) { return v.kind() == Verdict::SILENT && v.server() == "server-4"; }, kNamedWithin))
      << in_words(cluster.verdicts());
  cluster.node(4).continue_process();
  ASSERT_TRUE(cluster.node(6).faults().set(
      {.point = FaultPoint::kServeStream, .action = FaultAction::kCpuLoop, .times = 1, .delay = 20s}));
  EXPECT_TRUE(
      watched.says([](const Verdict& v) { return v.kind() == Verdict::RUNNING && v.server() == "server-6"; },
                   kNamedWithin + 5s))
      << in_words(cluster.verdicts());
}

TEST_F(Diagnosis, TheMetaserverOfAnIdleClusterIsMissedWithinTenSeconds) {
  Watched watched(61);
  SimulatedCluster& cluster = watched.cluster;
  KINTSUGI_ASSERT_OK(cluster.start());
  cluster.run_for(kWarmUp);
  ASSERT_TRUE(cluster.verdicts().empty()) << in_words(cluster.verdicts());
  cluster.crash_metaserver(Crash::kKill);
  const auto of_metaserver = [](const Verdict& v) {
    return v.kind() == Verdict::SILENT && v.server() == "metaserver" && !v.masked();
  };
  EXPECT_TRUE(watched.says(of_metaserver, kNamedWithin)) << in_words(cluster.verdicts());
  cluster.run_for(50s);
  ASSERT_EQ(cluster.verdicts().size(), 1u) << in_words(cluster.verdicts());
  EXPECT_TRUE(of_metaserver(cluster.verdicts().front()));
  cluster.restart_metaserver();
  cluster.run_for(20s);
  EXPECT_TRUE(cluster.verdicts().empty()) << in_words(cluster.verdicts());
}

TEST_F(Diagnosis, AMonitorThatIsStartedAgainKnowsWhoIsSilent) {
  Watched watched(62);
  SimulatedCluster& cluster = watched.cluster;
  KINTSUGI_ASSERT_OK(cluster.start());
  cluster.run_for(kWarmUp);
  const auto of_server = [](const Verdict& v) {
    return v.kind() == Verdict::SILENT && v.server() == "server-4";
  };
  cluster.node(4).stop_process();
  EXPECT_TRUE(watched.says(of_server, kNamedWithin + 5s)) << in_words(cluster.verdicts());
  cluster.run_for(12s);
  cluster.crash_monitor();
  cluster.restart_monitor();
  EXPECT_TRUE(watched.says(of_server, kNamedWithin)) << in_words(cluster.verdicts());
  cluster.run_for(60s);
  EXPECT_TRUE(watched.says(of_server, 1s)) << "it is found, and not only remembered";
  cluster.node(4).continue_process();
  cluster.run_for(20s);
  EXPECT_FALSE(watched.says(of_server, 1s)) << in_words(cluster.verdicts());
}

TEST_F(Diagnosis, ARestartIsNoReasonForAnAlarm) {
  Watched watched(41);
  SimulatedCluster& cluster = watched.cluster;
  KINTSUGI_ASSERT_OK(watched.start());
  for (const size_t server : {1, 5}) {
    cluster.crash_chunkserver(server, Crash::kKill);
    cluster.run_for(2s);
    cluster.restart_chunkserver(server);
    cluster.run_for(20s);
  }
  EXPECT_EQ(cluster.monitor().alarms().totals().raised, 0u)
      << in_words(cluster.verdicts())
      << in_words({cluster.monitor().alarms().history().begin(), cluster.monitor().alarms().history().end()});
  EXPECT_TRUE(watched.load->wrong().empty());
}

TEST_F(Diagnosis, ADeepCheckOfSlowDisksIsNoApplicationThatDoesNotRead) {
  Watched watched(42);
  SimulatedCluster& cluster = watched.cluster;
  KINTSUGI_ASSERT_OK(cluster.start());
  for (int i = 0; i < 4; ++i)
    KINTSUGI_ASSERT_OK(cluster.put(fmt::format("/file-{}", i), 4 << 20));
  cluster.run_for(kWarmUp);
  for (size_t server = 0; server < cluster.chunkservers(); ++server)
    cluster.node(server).disk().set_slow(5000);
  const auto report = cluster.start_deep_check();
  const TimePoint began = cluster.simulation().now();
  while (!report->has_value() && cluster.simulation().now() - began < 40s) {
    cluster.run_for(1s);
    for (const Verdict& verdict : cluster.verdicts())
      EXPECT_NE(verdict.kind(), Verdict::CLIENT) << in_words({verdict});
  }
  EXPECT_GT(cluster.simulation().now() - began, 10s)
      << "the disks were not slow enough for the monitor to look at it";
  cluster.heal();
  ASSERT_TRUE(cluster.simulation().run_until([&] { return report->has_value(); }, 10min));
  EXPECT_TRUE(**report) << (**report).error();
}

/// A repair of a chunk along a chain of all helpers, in the background.
class ChainRepair {
 public:
  ChainRepair(SimulatedCluster& cluster, StripeId stripe, uint32_t index) : cluster_(cluster) {
    proto::RunRepairRequest request;
    request.set_stripe_id(stripe.value);
    request.set_index(index);
    request.set_shape(proto::CHAIN);
    const auto run = [](ClientProgram& program, proto::RunRepairRequest request,
                        std::shared_ptr<std::optional<Status>> ended) -> asio::awaitable<void> {
      const ClientProgram::Use use(program);
      const auto response = co_await program.client().run_repair(std::move(request));
      *ended = response ? Status{} : response.error();
    };
    asio::co_spawn(cluster.simulation().executor(), run(cluster.client_program(), std::move(request), ended_),
                   asio::detached);
  }

  /// The helpers from the repair site to the end of the chain, once it runs; empty before.
  std::vector<size_t> helpers() {
    std::vector<size_t> found;
    const auto status = cluster_.repair_status();
    if (!status || status->running().empty()) return found;
    const proto::RepairRecord& record = status->running(0);
    for (uint64_t at = record.destination(); found.size() < static_cast<size_t>(record.edges_size());) {
      const auto from = std::ranges::find(record.edges(), at, &proto::RepairEdge::to);
      if (from == record.edges().end()) break;
      at = from->from();
      found.push_back(cluster_.server_of(ServerId{at}).value());
    }
    return found;
  }
  Status wait() {
    return cluster_.wait_until(
        [&] { return ended_->value_or(Status{Code::kUnavailable, "the repair has not ended"}); }, 1min);
  }

 private:
  SimulatedCluster& cluster_;
  std::shared_ptr<std::optional<Status>> ended_ = std::make_shared<std::optional<Status>>();
};

TEST_F(Diagnosis, TheStuckMiddleOfAChainOfTwelveIsNamedAtEachOfItsPositions) {
  constexpr uint32_t kHelpers = 12;
  constexpr uint64_t kChunkBytes = 4 << 20, kSlowLink = 4 << 20;  // a chunk takes a second
  SimulatedCluster cluster({.seed = 51,
                            .chunkservers = 18,
                            .racks = 18,
                            .monitor = true,
                            .policy = "rs-12-4-64k",
                            .chunk_bytes = kChunkBytes});
  KINTSUGI_ASSERT_OK(cluster.start());
  KINTSUGI_ASSERT_OK(cluster.put("/file", kHelpers * kChunkBytes));
  const StripeId stripe{cluster.stripes_of("/file").at(0).stripe_id()};
  (void)cluster.server_id(0);  // asks who is who
  for (uint32_t index = 0; index < 3; ++index)
    KINTSUGI_ASSERT_OK(ChainRepair(cluster, stripe, index).wait());
  for (size_t server = 0; server < cluster.chunkservers(); ++server)
    cluster.network().set_link(SimulatedCluster::name(server), kSlowLink, kSlowLink);
  for (uint32_t position = 0; position < kHelpers; ++position) {
    SCOPED_TRACE(position);
    ChainRepair repair(cluster, stripe, position);
    std::vector<size_t> helpers;
    // As soon as it begins: the last one of the chain is through with its part some milliseconds later.
    for (int look = 0; look < 1000 && (helpers = repair.helpers()).empty(); ++look)
      cluster.run_for(100us);
    ASSERT_EQ(helpers.size(), kHelpers);
    const size_t server = helpers[position];
    ASSERT_TRUE(cluster.node(server).faults().set(
        {.point = FaultPoint::kOwnSum, .action = FaultAction::kHang, .times = 1}));
    const auto named = [&] {
      const std::vector<Verdict> verdicts = cluster.verdicts();
      return verdicts.empty() ? Status{Code::kUnavailable, "nothing is named"} : Status{};
    };
    KINTSUGI_EXPECT_OK(cluster.wait_until(named, kNamedWithin + 2s));  // until somebody has passed
    ASSERT_EQ(cluster.node(server).faults().list().front().happened, 1u);
    for (const Verdict& verdict : cluster.verdicts()) {
      EXPECT_EQ(verdict.server(), SimulatedCluster::name(server)) << in_words(cluster.verdicts());
      EXPECT_NE(verdict.region().find("partial_sum_own"), std::string::npos) << verdict.region();
    }
    cluster.heal();
    KINTSUGI_EXPECT_OK(repair.wait());
    KINTSUGI_EXPECT_OK(cluster.wait_until(
        [&] { return cluster.verdicts().empty() ? Status{} : Status{Code::kUnavailable, "still wrong"}; },
        10s));
  }
}

}  // namespace
}  // namespace kintsugi::simulation
