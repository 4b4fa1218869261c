#include <gtest/gtest.h>

#include "common/base/draws.h"
#include "monitoring/similarity/watch.h"

namespace kintsugi::similarity {
namespace {

constexpr uint64_t kStates = 12;

StateInfo describe(uint64_t state) {
  return {.name = fmt::format("state {}", state),
          .file = "worker.cc",
          .function = "work",
          .line = static_cast<uint32_t>(state),
          .computes = state % 2 == 0};
}

/// The same, but that the states which do not compute wait for answers.
StateInfo describe_calls(uint64_t state) {
  StateInfo info = describe(state);
  if (!info.computes) info.wait = proto::WAIT_CALL;
  return info;
}

/// Servers of one role that go round twelve states, every second one of which computes; once in a while by a detour. Windows of ten seconds.
class Cluster {
 public:
  explicit Cluster(Watch& watch, size_t servers, uint64_t seed = 1)
      : watch_(watch), servers_(servers), draws_(seed) {}

  void window() {
    now_ += std::chrono::seconds(10);
    const double load = 1 + 0.7 * std::sin(static_cast<double>(++windows_) / 5);
    std::vector<Worker> workers;
    for (size_t s = 0; s < servers_; ++s) {
      std::vector<Edge> edges;
      const double rounds = std::floor(300 * load * std::exp(0.2 * draws_.normal()));
      for (uint64_t state = 1; state <= kStates; ++state) {
        const double detours = state == 3 ? std::floor(rounds * 0.02 * draws_.exponential()) : 0;
        const double slower = s == slow_server && (state == slow_state || (slow_state == 0 && state % 2 == 0))
                                  ? std::log2(factor)
                                  : 0;
        const double mean = 14 + static_cast<double>(state % 4) + 0.5 * load + 0.1 * draws_.normal() + slower;
        const auto add = [&](uint64_t to, double count) {
          if (count > 0)
            edges.push_back(
                {.transition = {state, to}, .count = count, .mean = mean, .squares = 0.64 * count});
        };
        add(state % kStates + 1, rounds - detours);
        add(7, detours);
      }
      workers.push_back({.server = fmt::format("server {}", s + 1),
                         .server_id = s + 1,
                         .process = 50 + s,
                         .process_kind = "chunkserver",
                         .role = "chunkserver.read_chunk",
                         .model = Model(std::move(edges)),
                         .load = {rounds},
                         .lacked_processor = s == starved_server});
    }
    watch_.add_window(workers, now_);
  }
  std::vector<proto::Verdict> alarms() const { return watch_.alarms(now_); }

  size_t slow_server = 99, starved_server = 99;
  uint64_t slow_state = 5;  ///< 0: all that compute
  double factor = 4;

 private:
  Watch& watch_;
  size_t servers_, windows_ = 0;
  Draws draws_;
  TimePoint now_{};
};

TEST(SimilarityWatch, NamesServerAndTransitionAndTakesItBack) {
  Watch watch(describe);
  Cluster cluster(watch, 8);
  for (int w = 0; w < 100; ++w) {
    cluster.window();
    ASSERT_TRUE(cluster.alarms().empty()) << "healthy window " << w;
  }
  cluster.slow_server = 4;
  cluster.window();
  cluster.window();
  auto alarms = cluster.alarms();
  ASSERT_EQ(alarms.size(), 1u);
  EXPECT_EQ(alarms[0].kind(), proto::Verdict::SLOW);
  EXPECT_EQ(alarms[0].server(), "server 5");
  EXPECT_EQ(alarms[0].region(), "state 5");
  EXPECT_EQ(alarms[0].line(), 5u);
  EXPECT_NEAR(alarms[0].factor(), 4, 1);
  EXPECT_GE(alarms[0].why_size(), 2);
  for (int w = 0; w < 70; ++w)
    cluster.window();
  EXPECT_EQ(cluster.alarms().size(), 1u) << "what is wrong does not become what is normal";
  cluster.slow_server = 99;
  for (int w = 0; w < 4; ++w)
    cluster.window();
  EXPECT_TRUE(cluster.alarms().empty());
}

TEST(SimilarityWatch, WindowsWithoutAProcessorMakeNobodySlowAndAreNotWhatIsUsual) {
  Watch watch(describe);
  Cluster cluster(watch, 8);
  for (int w = 0; w < 40; ++w)
    cluster.window();
  cluster.slow_server = cluster.starved_server = 4;
  for (int w = 0; w < 70; ++w) {
    cluster.window();
    ASSERT_TRUE(cluster.alarms().empty()) << "starved window " << w;
  }
  cluster.starved_server = 99;  // it has its processor again, and is as slow as it was
  for (int w = 0; w < 3; ++w)
    cluster.window();
  const auto alarms = cluster.alarms();
  ASSERT_EQ(alarms.size(), 1u);
  EXPECT_EQ(alarms[0].server(), "server 5");
}

TEST(SimilarityWatch, AllComputingSlowerIsAResource) {
  Watch watch(describe);
  Cluster cluster(watch, 6, 2);
  for (int w = 0; w < 40; ++w)
    cluster.window();
  cluster.slow_server = 2;
  cluster.slow_state = 0;
  cluster.factor = 2.2;
  for (int w = 0; w < 3; ++w)
    cluster.window();
  const auto alarms = cluster.alarms();
  ASSERT_EQ(alarms.size(), 1u);
  EXPECT_EQ(alarms[0].kind(), proto::Verdict::RESOURCE);
  EXPECT_EQ(alarms[0].server(), "server 3");
  EXPECT_NEAR(alarms[0].factor(), 2.2, 0.4);
}

TEST(SimilarityWatch, ASingleOddWindowIsNoAlarm) {
  Watch watch(describe);
  Cluster cluster(watch, 6, 3);
  for (int w = 0; w < 40; ++w)
    cluster.window();
  cluster.slow_server = 2;
  cluster.window();
  cluster.slow_server = 99;
  for (int w = 0; w < 5; ++w) {
    EXPECT_TRUE(cluster.alarms().empty());
    cluster.window();
  }
}

TEST(SimilarityWatch, OneServerAloneIsComparedWithItsOwnPastAndUnsurely) {
  Watch watch(describe);
  Cluster cluster(watch, 1, 4);
  for (int w = 0; w < 60; ++w) {
    cluster.window();
    ASSERT_TRUE(cluster.alarms().empty()) << w;
  }
  cluster.slow_server = 0;
  cluster.window();
  cluster.window();
  ASSERT_EQ(cluster.alarms().size(), 1u);
  EXPECT_EQ(cluster.alarms()[0].confidence(), proto::Verdict::UNSURE);
}

TEST(SimilarityWatch, OneServerAloneIsNotBlamedForWhatItWaitsFor) {
  for (const uint64_t slow_state : {5u, 4u}) {
    Watch watch(describe_calls);
    Cluster cluster(watch, 1, 4);
    for (int w = 0; w < 60; ++w)
      cluster.window();
    cluster.slow_server = 0;
    cluster.slow_state = slow_state;
    cluster.window();
    cluster.window();
    const bool is_its_own = slow_state == 4;
    ASSERT_EQ(cluster.alarms().size(), is_its_own ? 1u : 0u) << "state " << slow_state;
    if (is_its_own) EXPECT_EQ(cluster.alarms()[0].region(), "state 4");
  }
}

TEST(SimilarityWatch, OneOfManyThatWaitForTheSameIsNamedForAWait) {
  Watch watch(describe_calls);
  Cluster cluster(watch, 8);
  for (int w = 0; w < 60; ++w)
    cluster.window();
  cluster.slow_server = 4;
  cluster.window();
  cluster.window();
  ASSERT_EQ(cluster.alarms().size(), 1u);
  EXPECT_EQ(cluster.alarms()[0].region(), "state 5");
}

TEST(SimilarityWatch, WhatALackOfProcessorExplainsIsToldAsEvidenceOfIt) {
  Watch watch(describe);
  Cluster cluster(watch, 8);
  for (int w = 0; w < 40; ++w)
    cluster.window();
  cluster.slow_server = cluster.starved_server = 4;
  cluster.window();
  ASSERT_EQ(watch.excused().size(), 1u);
  EXPECT_EQ(watch.excused()[0].server(), "server 5");
  cluster.slow_server = cluster.starved_server = 99;
  cluster.window();
  EXPECT_TRUE(watch.excused().empty());
}

TEST(SimilarityWatch, NoHistoryIsNoAlarm) {
  Watch watch(describe);
  Cluster cluster(watch, 6, 5);
  cluster.slow_server = 1;
  cluster.window();
  cluster.window();
  EXPECT_TRUE(cluster.alarms().empty());
  watch.add_window({}, TimePoint{} + std::chrono::hours(5));
  EXPECT_TRUE(watch.alarms(TimePoint{} + std::chrono::hours(5)).empty());
}

}  // namespace
}  // namespace kintsugi::similarity
