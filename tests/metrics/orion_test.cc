#include "monitoring/metrics/orion/orion.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "monitoring/metrics/orion/as_printed.h"
#include "tests/metrics/trace_rig.h"

namespace kintsugi::orion {
namespace {

using metric_trace::HealthyProcess;
using metric_trace::PairVector;
using metric_trace::Trace;

PairVector of(const Eigen::MatrixXd& window) {
  return metric_trace::correlations(window);
}

Eigen::MatrixXd columns(std::vector<std::vector<double>> values) {
  Eigen::MatrixXd out(static_cast<Eigen::Index>(values.front().size()),
                      static_cast<Eigen::Index>(values.size()));
  for (size_t i = 0; i < values.size(); ++i)
    out.col(static_cast<Eigen::Index>(i)) =
        Eigen::Map<Eigen::VectorXd>(values[i].data(), static_cast<Eigen::Index>(values[i].size()));
  return out;
}

TEST(OrionAsPrinted, TheNearestWindowAndItsPairsAreThoseOfTheWorkedExample) {
  const std::vector<double> a{1, 2, 3, 4, 5}, b{2, 4, 6, 8, 10}, c{5, 4, 3, 2, 1}, e{1, 3, 2, 5, 4};
  const PairVector n1 = of(columns({a, b, c, e}));
  const PairVector n2 = of(columns({{2, 1, 4, 3, 5}, {3, 2, 5, 5, 7}, {4, 5, 2, 3, 1}, {1, 2, 4, 3, 5}}));
  const PairVector failed = of(columns({a, b, {1, 1, 5, 1, 1}, e}));
  EXPECT_NEAR(nearest(n1, {n2}).distance, 0.172994, 1e-5);
  EXPECT_NEAR(nearest(failed, {n2}).distance, 1.505054, 1e-5);
  const OddWindow odd = nearest(failed, {n2, n1});
  EXPECT_NEAR(odd.distance, 1.483009, 1e-5);
  ASSERT_EQ(odd.pairs.size(), 3U);
  EXPECT_EQ(odd.pairs[0].first, 1U);  // a and c
  EXPECT_EQ(odd.pairs[1].first, 3U);  // b and c
  EXPECT_EQ(odd.pairs[2].first, 5U);  // c and e
  EXPECT_NEAR(odd.pairs[2].second, 0.1993, 1e-4);
}

/// A process under a wandering load; `fault` changes its values from row `from` on.
Trace recorded(uint64_t seed, size_t rows, double load,
               const std::function<void(size_t, std::vector<double>&)>& fault = nullptr) {
  HealthyProcess process(seed);
  Trace trace = metric_trace::gauges(HealthyProcess::names(), rows, [&](size_t row) {
    std::vector<double> values = process.next(load);
    if (fault) fault(row, values);
    return values;
  });
  trace.header.regions = {
      {"chunkserver.read_chunk", 0}, {"chunkserver.append", 0}, {"repair_tree.child_sum", 0}};
  for (auto& row : trace.rows)
    row.activity = {{0, 3}, {1, 1}, {2, 0.02F}};
  return trace;
}

constexpr size_t kFds = 5, kSockets = 6, kCpu = 2, kQueue = 9;

std::vector<std::string> named(const Localisation& found) {
  std::vector<std::string> out;
  for (const Finding& finding : found.odd)
    for (const OddMetric& metric : finding.metrics)
      out.push_back(metric.name);
  return out;
}

TEST(Orion, ALeakIsNamedUnderTheSameLoadAndUnderAnother) {
  for (const double load : {1.0, 0.6, 1.7}) {
    const Trace now = recorded(2, 600, load, [](size_t row, std::vector<double>& values) {
      values[kFds] += 0.05 * static_cast<double>(row);
      values[kSockets] += 0.05 * static_cast<double>(row);
    });
    const Localisation found = localise(recorded(1, 3000, 1), now);
    ASSERT_EQ(found.odd.size(), 1U) << load;
    const std::vector<std::string> metrics = named(found);
    EXPECT_NE(std::ranges::find(metrics, "num_fds"), metrics.end()) << load;
    EXPECT_NE(std::ranges::find(metrics, "sockets"), metrics.end()) << load;
    EXPECT_EQ(found.odd[0].source, "chunkserver-1");
    EXPECT_NEAR(found.odd[0].load, load, 0.25);
  }
}

TEST(Orion, AMetricThatLosesItsRelationsIsNamedThoughItsLevelStays) {
  Draws draws(9);
  const Trace now = recorded(3, 600, 1, [&](size_t, std::vector<double>& values) {
    values[kCpu] = 30 + 1.8 * draws.normal();  // as before, but no longer because of the calls
  });
  const Localisation found = localise(recorded(1, 3000, 1), now);
  ASSERT_EQ(found.odd.size(), 1U);
  EXPECT_EQ(found.odd[0].metrics[0].name, "cpu");
}

/// Adds the process of another trace with as many rows, by that name.
void add_process(Trace& to, const Trace& one, const std::string& name) {
  const auto source = static_cast<uint32_t>(to.header.sources.size());
  to.header.sources.push_back({.name = name, .build_id = "b1"});
  for (metric_trace::Metric metric : one.header.metrics) {
    metric.source = source;
    to.header.metrics.push_back(metric);
  }
  for (size_t row = 0; row < to.rows.size(); ++row)
    to.rows[row].values.insert(to.rows[row].values.end(), one.rows[row].values.begin(),
                               one.rows[row].values.end());
}

/// Several servers in one trace, each with its own work.
Trace cluster(uint64_t seed, size_t rows,
              const std::function<void(size_t server, size_t row, std::vector<double>&)>& change) {
  Trace out;
  for (size_t server = 0; server < 4; ++server) {
    const Trace one = recorded(seed + server, rows, 1,
                               [&](size_t row, std::vector<double>& values) { change(server, row, values); });
    if (server == 0)
      out = one;
    else
      add_process(out, one, "chunkserver-" + std::to_string(server + 1));
  }
  return out;
}

void nothing(size_t /*row*/, std::vector<double>& /*values*/) {}
void nothing_at_servers(size_t /*server*/, size_t /*row*/, std::vector<double>& /*values*/) {}

TEST(Orion, WhatAllServersDoAtOnceIsNoFaultOfOneAndHidesNone) {
  const Trace healthy = cluster(1, 3000, nothing_at_servers);
  const auto all_slow = [](size_t, size_t, std::vector<double>& values) { values[9] += 6; };
  EXPECT_LE(localise(healthy, cluster(11, 600, all_slow)).odd.size(), 1U);
  const Localisation found =
      localise(healthy, cluster(21, 600, [&](size_t server, size_t row, std::vector<double>& values) {
                 all_slow(server, row, values);
                 if (server == 2) values[kFds] += 0.3 * static_cast<double>(row);
               }));
  ASSERT_FALSE(found.odd.empty());
  EXPECT_EQ(found.odd[0].source, "chunkserver-3");
  EXPECT_EQ(found.odd[0].metrics[0].name, "num_fds");
}

TEST(Orion, AServerThatHardlyServesIsNamedThoughTheLoadOfAllMovesByMore) {
  const auto queue_up = [](size_t row, std::vector<double>& values, double share) {
    values[kQueue] += share * (50 + 30 * std::sin(static_cast<double>(row) / 90));
  };
  const auto as_usual = [&](size_t, size_t row, std::vector<double>& values) { queue_up(row, values, 1); };
  const Localisation found =
      localise(cluster(1, 3000, as_usual),
               cluster(31, 600, [&](size_t server, size_t row, std::vector<double>& values) {
                 queue_up(row, values, server == 1 ? 0.4 : 1);
               }));
  ASSERT_EQ(found.odd.size(), 1U);
  EXPECT_EQ(found.odd[0].source, "chunkserver-2");
  EXPECT_EQ(found.odd[0].metrics[0].name, "queue");
}

/// One server does something for a while, in the healthy time or later.
auto bursts_at(size_t of, size_t begin) {
  return [=](size_t server, size_t row, std::vector<double>& values) {
    if (server == of && row >= begin && row < begin + 200) values[kQueue] += 30;
  };
}

TEST(Orion, ABurstOfAServerIsNoFaultWhereAnotherHadOneInTheHealthyTime) {
  const Trace now = cluster(41, 600, bursts_at(2, 200));
  EXPECT_EQ(localise(cluster(1, 3000, nothing_at_servers), now).odd.size(), 1U);
  EXPECT_TRUE(localise(cluster(1, 3000, bursts_at(0, 1300)), now).odd.empty());
}

TEST(Orion, AShareOfTimeThatNobodyNoticesIsNoFault) {
  const auto with_waits = [](Trace trace, double wait) {
    for (uint32_t source = 0; source < trace.header.sources.size(); ++source) {
      trace.header.metrics.push_back({.name = "pacer_wait_seconds_total{disk=\"a\"}",
                                      .kind = metric_trace::Kind::kGauge,
                                      .source = source});
      Draws draws(source + 1);
      for (auto& row : trace.rows)
        row.values.push_back(1e-6 * std::abs(draws.normal()) + (source == 2 ? wait : 0));
    }
    return trace;
  };
  const Trace healthy = with_waits(cluster(1, 3000, nothing_at_servers), 0);
  const Trace now = cluster(51, 600, nothing_at_servers);
  EXPECT_TRUE(localise(healthy, with_waits(now, 3e-4)).odd.empty());
  EXPECT_EQ(localise(healthy, with_waits(now, 0.02)).odd.size(), 1U);
}

TEST(Orion, AMetricThatTheMachineHasOnceAccusesNoProcess) {
  const auto renamed = [](Trace trace) {
    for (metric_trace::Metric& metric : trace.header.metrics)
      if (metric.name == "queue") metric.name = "tcp_mem";
    return trace;
  };
  const Trace healthy = cluster(1, 3000, nothing_at_servers), now = cluster(41, 600, bursts_at(2, 200));
  EXPECT_EQ(localise(healthy, now).odd.size(), 1U);
  EXPECT_TRUE(localise(renamed(healthy), renamed(now)).odd.empty());
}

using Change = std::function<void(size_t row, std::vector<double>&)>;

constexpr size_t kOwn = 10;

/// Four servers, and processes of these names beside them. Each of those has a metric that no server has, `own`, and a limit
/// of descriptors; `change` is done to their values alone.
Trace cluster_with(const std::vector<std::string>& others, uint64_t seed, size_t rows, const Change& change,
                   const std::function<void(size_t, size_t, std::vector<double>&)>& change_of_servers) {
  Trace out = cluster(seed, rows, change_of_servers);
  std::vector<std::string> names = HealthyProcess::names();
  names.emplace_back("own");
  for (const std::string& name : others) {
    HealthyProcess process(++seed + 100);
    Draws draws(seed + 200);
    Trace one = metric_trace::gauges(names, rows, [&](size_t row) {
      std::vector<double> values = process.next();
      values.push_back(20 + draws.normal());
      change(row, values);
      return values;
    });
    one.header.metrics[kFds].limit = 1024;
    add_process(out, one, name);
  }
  return out;
}

/// Judges a cluster with these processes beside its servers after `change` was done to them.
Localisation found_with(
    const std::vector<std::string>& others, const Change& change,
    const std::function<void(size_t, size_t, std::vector<double>&)>& change_of_servers = nothing_at_servers) {
  return localise(cluster_with(others, 1, 3000, nothing, nothing_at_servers),
                  cluster_with(others, 11, 600, change, change_of_servers));
}

void works_otherwise(size_t /*row*/, std::vector<double>& values) {
  values[kOwn] += 60;
}

TEST(Orion, AProcessWithoutPeersIsToldWhenItChangesAndAccusesNobody) {
  const Localisation found = found_with({"monitor"}, works_otherwise);
  EXPECT_TRUE(found.odd.empty());
  ASSERT_EQ(found.also_changed.size(), 1U);
  EXPECT_EQ(found.also_changed[0].source, "monitor");
  EXPECT_EQ(found.also_changed[0].metrics[0].name, "own");
}

TEST(Orion, OneOtherOfItsRoleIsNoPeer) {
  const Localisation found = found_with({"repair-manager-1", "repair-manager-2"}, works_otherwise);
  EXPECT_TRUE(found.odd.empty());
  EXPECT_EQ(found.also_changed.size(), 2U);
}

TEST(Orion, AServerIsFaultyBeforeAProcessWithoutPeersThatIsFartherOff) {
  const Localisation found =
      found_with({"monitor"}, works_otherwise, [](size_t server, size_t row, std::vector<double>& values) {
        if (server == 2) values[kFds] += 0.3 * static_cast<double>(row);
      });
  ASSERT_EQ(found.odd.size(), 1U);
  EXPECT_EQ(found.odd[0].source, "chunkserver-3");
  ASSERT_EQ(found.also_changed.size(), 1U);
  EXPECT_GT(found.also_changed[0].metrics[0].score, found.odd[0].metrics[0].score);
}

TEST(Orion, AProcessWithoutPeersIsAccusedWhenAResourceOfItRunsOut) {
  const Localisation found = found_with({"metaserver"}, [](size_t row, std::vector<double>& values) {
    works_otherwise(row, values);
    values[kFds] += 0.5 * static_cast<double>(row);
  });
  EXPECT_TRUE(found.also_changed.empty());
  ASSERT_EQ(found.odd.size(), 1U);
  EXPECT_EQ(found.odd[0].source, "metaserver");
  EXPECT_EQ(found.odd[0].metrics[0].name, "num_fds") << "though its own metric is farther off";
  EXPECT_TRUE(found.odd[0].metrics[0].runs_out);
}

TEST(Orion, AResourceThatIsFarFromItsLimitOrLeavesItOrStandsStillOrIsAsEverDoesNotRunOut) {
  const Change slowly = [](size_t row, std::vector<double>& values) {
    values[4] += 0.5 * static_cast<double>(row);  // rss, which has no limit here
  };
  const Change away = [](size_t row, std::vector<double>& values) {
    values[kFds] -= 0.05 * static_cast<double>(row);
  };
  const Change jump = [](size_t, std::vector<double>& values) { values[kFds] += 140; };
  const Change back = [](size_t row, std::vector<double>& values) {
    values[kFds] -= 0.05 * static_cast<double>(600 - row);  // below what it was, and on its way there
  };
  const Change within = [](size_t row, std::vector<double>& values) {
    works_otherwise(row, values);
    values[kFds] += 0.015 * static_cast<double>(row);  // no more than its load moves it by
  };
  for (const Change& change : {slowly, away, jump, back, within}) {
    const Localisation found = found_with({"metaserver"}, change);
    EXPECT_TRUE(found.odd.empty());
    ASSERT_EQ(found.also_changed.size(), 1U);
    EXPECT_FALSE(found.also_changed[0].metrics[0].runs_out);
  }
}

TEST(Orion, AProcessThatIsJudgedByItselfIsAccusedOfWhatItDoes) {
  const Trace now = recorded(2, 600, 1, [](size_t, std::vector<double>& values) { values[kFds] += 140; });
  EXPECT_EQ(localise(recorded(1, 3000, 1), now).odd.size(), 1U);
}

TEST(Orion, TheServerOfAMetricFarBeyondWhatItEverWasComesFirstThoughAnotherHasManyThatAreSlightlyOdd) {
  // A metric that moves in rare steps has shown little of what it may do: that hid how far off it is.
  const auto step = [](size_t server, size_t row, std::vector<double>& values) {
    values[kFds] = 60 + 3.0 * static_cast<double>((row + 200 * server) / 800 % 2);
  };
  const auto now = [&](size_t server, size_t row, std::vector<double>& values) {
    step(server, row, values);
    if (server == 1) values[kFds] += 140;
    if (server != 3) return;
    values[4] += 30;   // rss
    values[7] += 0.6;  // threads
    values[8] += 30;   // cached
    values[9] += 0.8;  // queue
  };
  const Localisation found = localise(cluster(1, 3000, step), cluster(11, 600, now));
  ASSERT_FALSE(found.odd.empty());
  EXPECT_EQ(found.odd[0].source, "chunkserver-2");
  EXPECT_EQ(found.odd[0].metrics[0].name, "num_fds");
  EXPECT_NEAR(found.odd[0].metrics[0].now - found.odd[0].metrics[0].healthy, 140, 10);
}

TEST(Orion, WindowsThatTheSamplerMissedRowsOfCount) {
  Trace now = cluster(11, 600, [](size_t server, size_t row, std::vector<double>& values) {
    if (server == 1) values[kFds] += 0.3 * static_cast<double>(row);
  });
  std::erase_if(now.rows, [](const auto& row) { return row.t_ns / metric_trace::kSecond % 25 >= 20; });
  const Localisation found = localise(cluster(1, 3000, nothing_at_servers), now);
  ASSERT_FALSE(found.odd.empty());
  EXPECT_EQ(found.odd[0].source, "chunkserver-2");
}

TEST(Orion, AMetricThatDriftsByNatureAccusesOnlyWhenItDriftsFaster) {
  double size = 0, faster = 0;
  const auto grows = [&](size_t, std::vector<double>& values) { values[8] = 500 + (size += 0.5 + faster); };
  const Trace healthy = recorded(1, 3000, 1, grows);
  EXPECT_TRUE(localise(healthy, recorded(2, 600, 1, grows)).odd.empty());
  faster = 5;
  const Localisation found = localise(healthy, recorded(3, 600, 1, grows));
  ASSERT_EQ(found.odd.size(), 1U);
  EXPECT_EQ(found.odd[0].metrics[0].name, "cached");
}

TEST(Orion, HealthyTracesAreNotAccused) {
  const Trace healthy = recorded(1, 3000, 1);
  int accused = 0;
  for (uint64_t seed = 100; seed < 140; ++seed)
    accused += localise(healthy, recorded(seed, 600, 1)).odd.empty() ? 0 : 1;
  EXPECT_LE(accused, 1);
}

TEST(Orion, MoreLoadAloneIsNotAnAccusation) {
  const Trace healthy = recorded(1, 3000, 1);
  int accused = 0;
  for (uint64_t seed = 200; seed < 220; ++seed)
    accused += localise(healthy, recorded(seed, 600, seed % 2 == 0 ? 1.5 : 0.7)).odd.empty() ? 0 : 1;
  EXPECT_LE(accused, 1);
}

TEST(Orion, TheRegionThatIsOpenUnlikeBeforeLeadsThoughOthersAreOpenMore) {
  Trace now = recorded(2, 600, 1, [](size_t row, std::vector<double>& values) {
    values[kFds] += 0.1 * static_cast<double>(row);
  });
  for (auto& row : now.rows)
    row.activity = {{0, 3}, {1, 1}, {2, 0.8F}};
  const Localisation found = localise(recorded(1, 3000, 1), now);
  ASSERT_EQ(found.odd.size(), 1U);
  ASSERT_FALSE(found.odd[0].regions.empty());
  EXPECT_EQ(found.odd[0].regions[0].name, "repair_tree.child_sum");
  EXPECT_GT(found.odd[0].regions[0].share, 10 * std::max(found.odd[0].regions[0].healthy, 1e-3));
}

TEST(Orion, ARegionThatWasSeenOpenOnceIsNotNamed) {
  Trace now = recorded(2, 600, 1, [](size_t row, std::vector<double>& values) {
    values[kFds] += 0.1 * static_cast<double>(row);
  });
  now.rows[300].activity.push_back({2, 1});
  const Localisation found = localise(recorded(1, 3000, 1), now);
  ASSERT_EQ(found.odd.size(), 1U);
  EXPECT_TRUE(found.odd[0].regions.empty());
}

TEST(Orion, AMetricThatNeverMovedIsToldWhenItDoesAndAccusesNobody) {
  const auto with_disks = [](Trace trace, double failed) {
    trace.header.metrics.push_back({.name = "failed_disks", .kind = metric_trace::Kind::kGauge, .source = 0});
    for (auto& row : trace.rows)
      row.values.push_back(failed);
    return trace;
  };
  const Localisation found =
      localise(with_disks(recorded(1, 3000, 1), 0), with_disks(recorded(2, 600, 1), 1));
  ASSERT_EQ(found.healthy.size(), 1U);
  EXPECT_EQ(found.healthy[0].moved, std::vector<std::string>{"failed_disks"});
}

TEST(Orion, TooLittleDataIsSaidAndNobodyIsAccused) {
  const Trace healthy = recorded(1, 3000, 1);
  for (const auto& [before, now] :
       {std::pair{healthy, recorded(2, 3, 1)}, std::pair{recorded(1, 30, 1), recorded(2, 600, 1)},
        std::pair{metric_trace::gauges({"a", "b"}, 3000, [](size_t) { return std::vector<double>{1, 2}; }),
                  recorded(2, 600, 1)}}) {
    const Localisation found = localise(before, now);
    EXPECT_TRUE(found.odd.empty());
    ASSERT_EQ(found.not_judged.size(), 1U);
    EXPECT_NE(found.not_judged[0].why.find("not enough data because"), std::string::npos)
        << found.not_judged[0].why;
  }
  Trace other = healthy;
  other.header.sources[0].name = "chunkserver-9";
  EXPECT_EQ(localise(healthy, other).not_judged.size(), 1U);
}

}  // namespace
}  // namespace kintsugi::orion
