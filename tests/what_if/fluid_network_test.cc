// Rates of flows and times of their ends, against progressive filling as it is defined: from scratch, at every change.
#include "repair_manager/what_if/fluid_network.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "repair_manager/what_if/virtual_world.h"
#include "tests/test_seeds.h"

namespace kintsugi::what_if {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct TestFlow {
  double begins = 0;  // seconds after the first of all
  std::vector<FluidNetwork::Share> shares;
  double bytes = 0, max_rate = 0;
};

/// Progressive filling of the flows that are marked, by raising all rates to the next thing that limits one.
std::vector<double> fill(const std::vector<double>& capacity, const std::vector<TestFlow>& flows,
                         const std::vector<bool>& runs) {
  std::vector<double> rates(flows.size(), 0.0);
  std::vector<bool> open = runs;
  while (std::ranges::find(open, true) != open.end()) {
    std::vector<double> left = capacity, weight(capacity.size(), 0.0);
    double level = kNever;
    for (size_t i = 0; i < flows.size(); ++i) {
      if (open[i]) level = std::min(level, flows[i].max_rate);
      for (const FluidNetwork::Share& share : flows[i].shares)
        open[i] ? weight[share.link] += share.weight : left[share.link] -= share.weight * rates[i];
    }
    const auto full_at = [&](size_t link) { return weight[link] > 0 ? left[link] / weight[link] : kNever; };
    for (size_t link = 0; link < capacity.size(); ++link)
      level = std::min(level, full_at(link));
    for (size_t i = 0; i < flows.size(); ++i) {
      if (!open[i]) continue;
      const bool full = std::ranges::any_of(
          flows[i].shares, [&](const auto& share) { return full_at(share.link) <= level * (1 + 1e-12); });
      if (!full && flows[i].max_rate > level) continue;
      rates[i] = level;
      open[i] = false;
    }
  }
  return rates;
}

/// When each flow ends, in seconds.
std::vector<double> reference_ends(const std::vector<double>& capacity, const std::vector<TestFlow>& flows) {
  std::vector<double> ends(flows.size(), kNever), left;
  std::vector<bool> runs(flows.size(), false);
  for (const TestFlow& flow : flows)
    left.push_back(flow.bytes);
  for (double now = 0;;) {
    for (size_t i = 0; i < flows.size(); ++i)
      if (ends[i] == kNever) runs[i] = flows[i].begins <= now;
    const std::vector<double> rates = fill(capacity, flows, runs);
    double next = kNever;
    for (size_t i = 0; i < flows.size(); ++i) {
      if (runs[i]) next = std::min(next, now + left[i] / rates[i]);
      if (flows[i].begins > now) next = std::min(next, flows[i].begins);
    }
    if (next == kNever) return ends;
    for (size_t i = 0; i < flows.size(); ++i) {
      if (!runs[i]) continue;
      left[i] -= rates[i] * (next - now);
      if (left[i] > 1e-9 * flows[i].bytes) continue;
      ends[i] = next;
      runs[i] = false;
    }
    now = next;
  }
}

class Network {
 public:
  explicit Network(const std::vector<double>& capacity, double together = 0)
      : network_(world_.clock(), {.together_seconds = together}) {
    for (const double rate : capacity)
      network_.add_link(rate);
  }
  std::vector<double> ends(const std::vector<TestFlow>& flows) {
    const TimePoint began = world_.now();
    std::vector<double> ends(flows.size(), -1.0);
    size_t open = flows.size();
    for (size_t i = 0; i < flows.size(); ++i) {
      const std::chrono::duration<double> delay{flows[i].begins};
      world_.clock().call_at(began + std::chrono::duration_cast<Duration>(delay), [&, i] {
        network_.start(flows[i].shares, flows[i].bytes, flows[i].max_rate, [&, i] {
          ends[i] = to_seconds(world_.now() - began);
          --open;
        });
      });
    }
    EXPECT_TRUE(world_.run_until([&] { return open == 0; }, std::chrono::hours(1000)));
    return ends;
  }
  const FluidNetwork& network() const { return network_; }

 private:
  VirtualWorld world_{1};
  FluidNetwork network_;
};

TEST(FluidNetwork, SharesALinkEquallyAndGivesAwayWhatAFlowLeaves) {
  // Both have 50 until the first has its 100; the other one then has 100.
  const std::vector<double> ends = Network({100}).ends({{0, {{0, 1}}, 100, 1e9}, {0, {{0, 1}}, 200, 1e9}});
  EXPECT_NEAR(ends[0], 2, 1e-5);
  EXPECT_NEAR(ends[1], 3, 1e-5);
}

TEST(FluidNetwork, LeavesToOthersWhatAFlowThatIsLimitedElsewhereCannotUse) {
  // The first is held at 10 by its second link, the third at 20 by its own limit.
  const std::vector<double> ends = Network({100, 10}).ends(
      {{0, {{0, 1}, {1, 1}}, 10, 1e9}, {0, {{0, 1}}, 70, 1e9}, {0, {{0, 1}}, 20, 20}});
  for (const double end : ends)
    EXPECT_NEAR(end, 1, 1e-5);
}

TEST(FluidNetwork, CountsWhatAFlowTakesOfALinkByItsWeight) {
  const std::vector<double> ends = Network({100, 100}).ends({{0, {{0, 4}, {1, 0.5}}, 100, 1e9}});
  EXPECT_NEAR(ends[0], 4, 1e-5);
}

TEST(FluidNetwork, EndsFlowsWhenFillingFromScratchAtEveryChangeWould) {
  const TestSeeds seeds(8);
  for (uint64_t seed = seeds.first(); seed < seeds.end(); ++seed) {
    SCOPED_TRACE(TestSeeds::replay(seed));
    SeededRandom random(seed);
    std::vector<double> capacity;
    for (int i = 0; i < 30; ++i)
      capacity.push_back(i % 5 == 0 ? 25 : 100 + 10 * random.fraction());
    std::vector<TestFlow> flows;
    for (int i = 0; i < 120; ++i) {
      TestFlow flow{.begins = i < 40 ? 0 : 20 * random.fraction(),
                    .bytes = 50 + 400 * random.fraction(),
                    .max_rate = random.below(4) == 0 ? 5 + 30 * random.fraction() : 100};
      std::vector<uint32_t> links(capacity.size());
      for (uint32_t link = 0; link < links.size(); ++link)
        links[link] = link;
      const size_t count = 1 + random.below(8);
      for (size_t s = 0; s < count; ++s) {
        std::swap(links[s], links[s + random.below(links.size() - s)]);
        flow.shares.push_back({links[s], random.below(3) == 0 ? 0.25 : 1.0});
      }
      flows.push_back(std::move(flow));
    }
    Network network(capacity);
    const std::vector<double> ends = network.ends(flows), expected = reference_ends(capacity, flows);
    for (size_t i = 0; i < flows.size(); ++i)
      EXPECT_NEAR(ends[i], expected[i], 2e-6 * expected[i] + 1e-5) << "flow " << i;
  }
}

TEST(FluidNetwork, FillsOnlyFlowsAnewThatAChangeConcerns) {
  // A hundred slow flows share a link of their own, each at 1. Fast ones come and go elsewhere.
  std::vector<TestFlow> flows;
  for (int i = 0; i < 100; ++i)
    flows.push_back({0, {{0, 1}}, 1000, 1e9});
  for (int i = 0; i < 50; ++i)
    flows.push_back({1.0 + i, {{1, 1}}, 50, 1e9});
  Network network({100, 100});
  network.ends(flows);
  EXPECT_LT(network.network().share_visits(), 100u + 300u);
}

TEST(FluidNetwork, TellsTheBytesThatLinksCarried) {
  Network network({100, 100});
  network.ends({{0, {{0, 1}, {1, 0.5}}, 100, 1e9}, {0, {{1, 1}}, 10, 1e9}});
  EXPECT_DOUBLE_EQ(network.network().carried(0), 100);
  EXPECT_DOUBLE_EQ(network.network().carried(1), 60);
}

}  // namespace
}  // namespace kintsugi::what_if
