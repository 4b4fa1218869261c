// Work that left the line of a process, beside its peers at the same time.
#include <functional>

#include <gtest/gtest.h>

#include "monitoring/metrics/rams/beside_peers.h"
#include "tests/metrics/trace_rig.h"

namespace kintsugi::rams {
namespace {

using OnServers = std::function<void(size_t server, size_t row, std::vector<double>&)>;

constexpr size_t kServers = 5, kSick = 2;

/// Servers under one load that wanders; each has noise of its own.
std::vector<Inputs> servers(uint64_t seed, size_t rows, const OnServers& fault = nullptr) {
  std::vector<double> loads;
  Draws of_load(seed);
  double load = 0;
  for (size_t row = 0; row < rows; ++row)
    loads.push_back(load = 0.98 * load + of_load.normal());
  std::vector<Inputs> out;
  for (size_t server = 0; server < kServers; ++server) {
    Draws draws(1000 * seed + server);
    const auto trace =
        metric_trace::gauges({"user_samples", "kernel_samples", "page_faults_user"}, rows, [&](size_t row) {
          const double app = std::max(10.0, 300 + 30 * loads[row] + 10 * draws.normal());
          std::vector<double> values{app, 0.5 * app + 10 * draws.normal(), 5 + 0.02 * app + draws.normal()};
          if (fault) fault(server, row, values);
          return values;
        });
    out.push_back(*inputs_of(metric_trace::series_of(trace, 0)));
  }
  return out;
}

const std::vector<Inputs>& healthy() {
  static const std::vector<Inputs> made = servers(1, 900);
  return made;
}

void expect_only_the_faulty(const std::vector<Parted>& found, const std::string& channel) {
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].process, kSick);
  EXPECT_EQ(found[0].channel, channel);
}

TEST(RamsBesidePeers, AServerThatSpinsIsAccusedAlone) {
  const auto now = servers(2, 300, [](size_t server, size_t row, auto& values) {
    if (server == kSick && row >= 150) values[0] += 300;
  });
  expect_only_the_faulty(parted_from_peers(healthy(), now).parted, "kernel_samples");
}

TEST(RamsBesidePeers, AServerThatLeaksIsAccusedByItsPageFaults) {
  const auto now = servers(3, 300, [](size_t server, size_t row, auto& values) {
    if (server == kSick && row >= 150) values[2] += 20;
  });
  const auto found = parted_from_peers(healthy(), now).parted;
  expect_only_the_faulty(found, "page_faults_user");
  EXPECT_GE(found[0].t_ns, 150 * metric_trace::kSecond);
}

TEST(RamsBesidePeers, WhatAllDoAtOnceAccusesNobody) {
  const auto now = servers(4, 300, [](size_t, size_t row, auto& values) {
    if (row >= 150) values[1] += 200;
  });
  EXPECT_TRUE(parted_from_peers(healthy(), now).parted.empty());
}

TEST(RamsBesidePeers, HealthyServersAreNotAccused) {
  size_t accused = 0;
  for (uint64_t seed = 10; seed < 50; ++seed)
    accused += parted_from_peers(healthy(), servers(seed, 300)).parted.size();
  EXPECT_LE(accused, 1U);
}

TEST(RamsBesidePeers, ABurstThatHealthyTimesHaveIsNone) {
  const auto burst = [](size_t of, size_t begin) {
    return [=](size_t server, size_t row, std::vector<double>& values) {
      if (server == of && row >= begin && row < begin + 40) values[1] += 150;
    };
  };
  const auto now = servers(5, 300, burst(kSick, 150));
  EXPECT_EQ(parted_from_peers(healthy(), now).parted.size(), 1U);
  EXPECT_TRUE(parted_from_peers(servers(1, 900, burst(0, 420)), now).parted.empty())
      << "another server had one";
}

TEST(RamsBesidePeers, FewerThanFourAreNotCompared) {
  const auto now =
      servers(2, 300, [](size_t server, size_t, auto& values) { values[0] += server == 2 ? 300 : 0; });
  const BesidePeers found = parted_from_peers(std::span(healthy()).first(3), std::span(now).first(3));
  EXPECT_TRUE(found.parted.empty());
  EXPECT_EQ(found.compared, std::vector<bool>(3, false));
}

TEST(RamsBesidePeers, OfFourServersThreeAreNotAccusedWhenTheLastHasDied) {
  const auto share_more = [](size_t dead_from) {
    return [=](size_t server, size_t row, std::vector<double>& values) {
      if (row >= 150) values[1] += 200;
      if (server == 3 && row >= dead_from) values.assign(values.size(), metric_trace::kMissing);
    };
  };
  const auto first = [](const std::vector<Inputs>& all) { return std::span(all).first(4); };
  const auto half = servers(6, 300, share_more(150));
  const BesidePeers found = parted_from_peers(first(healthy()), first(half));
  EXPECT_TRUE(found.parted.empty());
  EXPECT_EQ(found.compared, std::vector<bool>(4, true)) << "until then";
  const auto almost = servers(6, 300, share_more(10));
  EXPECT_EQ(parted_from_peers(first(healthy()), first(almost)).compared, std::vector<bool>(4, false));
  EXPECT_TRUE(parted_from_peers(first(healthy()), first(almost)).parted.empty());
}

TEST(RamsBesidePeers, AServerThatLeaksIsFoundThoughAnotherDiedInTheHealthyTime) {
  const auto before = servers(1, 900, [](size_t server, size_t row, auto& values) {
    if (server == 3 && row >= 500) values.assign(values.size(), metric_trace::kMissing);
  });
  const auto now = servers(3, 300, [](size_t server, size_t row, auto& values) {
    if (server == kSick && row >= 150) values[2] += 20;
  });
  expect_only_the_faulty(parted_from_peers(std::span(before).first(4), std::span(now).first(4)).parted,
                         "page_faults_user");
}

TEST(RamsBesidePeers, TooFewRowsCompareNobody) {
  EXPECT_EQ(parted_from_peers(healthy(), servers(2, 15)).compared, std::vector<bool>(kServers, false));
  EXPECT_EQ(parted_from_peers(servers(1, 25), servers(2, 300)).compared, std::vector<bool>(kServers, false));
}

}  // namespace
}  // namespace kintsugi::rams
