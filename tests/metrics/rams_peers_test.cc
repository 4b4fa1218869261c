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
  expect_only_the_faulty(parted_from_peers(healthy(), servers(2, 300,
                                                              [](size_t server, size_t row, auto& values) {
                                                                if (server == kSick && row >= 150)
                                                                  values[0] += 300;
                                                              })),
                         "kernel_samples");
}

TEST(RamsBesidePeers, AServerThatLeaksIsAccusedByItsPageFaults) {
  const auto found =
      parted_from_peers(healthy(), servers(3, 300, [](size_t server, size_t row, auto& values) {
                          if (server == kSick && row >= 150) values[2] += 20;
                        }));
  expect_only_the_faulty(found, "page_faults_user");
  EXPECT_GE(found[0].t_ns, 150 * metric_trace::kSecond);
}

TEST(RamsBesidePeers, WhatAllDoAtOnceAccusesNobody) {
  EXPECT_TRUE(parted_from_peers(healthy(), servers(4, 300,
                                                   [](size_t, size_t row, auto& values) {
                                                     if (row >= 150) values[1] += 200;
                                                   }))
                  .empty());
}

TEST(RamsBesidePeers, HealthyServersAreNotAccused) {
  size_t accused = 0;
  for (uint64_t seed = 10; seed < 50; ++seed)
    accused += parted_from_peers(healthy(), servers(seed, 300)).size();
  EXPECT_LE(accused, 1U);
}

TEST(RamsBesidePeers, ABurstThatHealthyTimesHaveIsNone) {
  const auto burst = [](size_t of, size_t begin) {
    return [=](size_t server, size_t row, std::vector<double>& values) {
      if (server == of && row >= begin && row < begin + 40) values[1] += 150;
    };
  };
  const auto now = servers(5, 300, burst(kSick, 150));
  EXPECT_EQ(parted_from_peers(healthy(), now).size(), 1U);
  EXPECT_TRUE(parted_from_peers(servers(1, 900, burst(0, 420)), now).empty()) << "another server had one";
}

TEST(RamsBesidePeers, FewerThanFourAreNotCompared) {
  const auto now =
      servers(2, 300, [](size_t server, size_t, auto& values) { values[0] += server == 2 ? 300 : 0; });
  EXPECT_TRUE(parted_from_peers(std::span(healthy()).first(3), std::span(now).first(3)).empty());
}

}  // namespace
}  // namespace kintsugi::rams
