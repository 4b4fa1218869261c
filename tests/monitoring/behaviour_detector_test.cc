#include <limits>

#include <gtest/gtest.h>

#include "common/base/draws.h"
#include "monitoring/behaviour/detector.h"

namespace kintsugi::behaviour {
namespace {

const Module kRead{.process_kind = "chunkserver",
                   .role_path = 77,
                   .region = "chunkserver.read_chunk > disk.read",
                   .file = "disk.cc",
                   .function = "read",
                   .line = 12,
                   .inputs = {"bytes", "queue"},
                   .outputs = {}};

/// A cluster whose servers read; each is slower than the law by a factor of its own.
class Cluster {
 public:
  explicit Cluster(Detector& detector, std::vector<double> factors)
      : detector_(detector), factors_(std::move(factors)) {}

  void run(size_t executions, double seconds) {
    now_ += std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    for (size_t s = 0; s < factors_.size(); ++s) {
      std::vector<proto::SightSample> samples;
      for (size_t i = 0; i < executions; ++i) {
        const double bytes = std::floor(std::exp2(draws_.uniform(12, 20))),
                     queue = std::floor(draws_.exponential() * 3);
        proto::SightSample sample;
        sample.add_inputs(static_cast<float>(bytes));
        sample.add_inputs(static_cast<float>(queue));
        double time = (80e3 + 4 * bytes) * (1 + 0.1 * queue) * factors_[s] * std::exp(0.08 * draws_.normal());
        if (draws_.uniform() < 0.01) time *= 2 + draws_.exponential();
        sample.set_self_ns(static_cast<uint64_t>(time));
        samples.push_back(sample);
      }
      std::vector<const proto::SightSample*> pointers;
      for (const auto& sample : samples)
        pointers.push_back(&sample);
      detector_.add({.name = fmt::format("server {}", s + 1), .server_id = s + 1, .process = 100 + s}, kRead,
                    pointers, now_);
    }
  }
  void slow(size_t server, double factor) { factors_[server] *= factor; }
  TimePoint now() const { return now_; }

 private:
  Detector& detector_;
  std::vector<double> factors_;
  TimePoint now_{};
  Draws draws_{11};
};

TEST(BehaviourDetector, NamesTheServerThatBecameSlowAndTakesItBack) {
  Detector detector;
  Cluster cluster(detector, {1, 1, 1.4, 1, 1});  // one that has always been slower is no anomaly
  for (int minute = 0; minute < 5; ++minute)
    cluster.run(64, 60);
  detector.refit(cluster.now());
  ASSERT_EQ(detector.learnt().size(), 1u);
  EXPECT_TRUE(detector.learnt()[0].usable);
  EXPECT_GE(detector.learnt()[0].r2, 0.9);
  for (int second = 0; second < 300; ++second) {
    cluster.run(5, 1);
    ASSERT_TRUE(detector.alarms(cluster.now()).empty()) << "healthy for " << second << " s";
  }
  cluster.slow(1, 3);
  cluster.run(20, 5);
  const auto alarms = detector.alarms(cluster.now());
  ASSERT_EQ(alarms.size(), 1u);
  const proto::Verdict& alarm = alarms[0];
  EXPECT_EQ(alarm.kind(), proto::Verdict::BEHAVIOUR);
  EXPECT_EQ(alarm.server(), "server 2");
  EXPECT_EQ(alarm.region(), kRead.region);
  EXPECT_EQ(alarm.file(), "disk.cc");
  EXPECT_NEAR(alarm.factor(), 3, 0.5);
  EXPECT_GT(alarm.probability(), 0.9);
  EXPECT_GE(alarm.why_size(), 3);

  for (int minute = 0; minute < 12; ++minute) {
    cluster.run(64, 60);
    detector.alarms(cluster.now());
  }
  detector.refit(cluster.now());
  cluster.run(20, 60);
  ASSERT_EQ(detector.alarms(cluster.now()).size(), 1u) << "the fault was not learnt";
  cluster.slow(1, 1.0 / 3);
  cluster.run(40, 5);
  EXPECT_TRUE(detector.alarms(cluster.now()).empty());
}

TEST(BehaviourDetector, FindsASlightSlownessOfAllExecutions) {
  Detector detector;
  Cluster cluster(detector, {1, 1, 1, 1});
  for (int minute = 0; minute < 5; ++minute)
    cluster.run(64, 60);
  detector.refit(cluster.now());
  cluster.slow(3, 1.6);
  cluster.run(20, 5);
  ASSERT_EQ(detector.alarms(cluster.now()).size(), 1u);
  EXPECT_EQ(detector.alarms(cluster.now())[0].server(), "server 4");
}

TEST(BehaviourDetector, AChangeOfAllServersIsNoServersFault) {
  Detector detector;
  Cluster cluster(detector, {1, 1, 1, 1});
  for (int minute = 0; minute < 5; ++minute)
    cluster.run(64, 60);
  detector.refit(cluster.now());
  for (size_t s = 0; s < 4; ++s)
    cluster.slow(s, 3);
  cluster.run(20, 5);
  EXPECT_TRUE(detector.alarms(cluster.now()).empty());
}

TEST(BehaviourDetector, BadSamplesAndFailedExecutionsAreLeftOut) {
  Detector detector;
  proto::SightSample short_one, failed, not_a_number, huge;
  short_one.add_inputs(1);
  short_one.set_self_ns(5);
  for (auto* sample : {&failed, &not_a_number, &huge}) {
    sample->add_inputs(1);
    sample->add_inputs(2);
    sample->set_self_ns(5);
  }
  failed.set_code(3);
  not_a_number.set_inputs(0, std::numeric_limits<float>::quiet_NaN());
  huge.set_inputs(0, std::numeric_limits<float>::infinity());
  std::vector<const proto::SightSample*> bad;
  for (int i = 0; i < 500; ++i)
    for (auto* sample : {&short_one, &failed, &not_a_number, &huge})
      bad.push_back(sample);
  detector.add({.name = "server 1", .process = 1}, kRead, bad, TimePoint{});
  EXPECT_FALSE(detector.due(TimePoint{})) << "nothing of it was kept";
  detector.refit(TimePoint{});
  EXPECT_TRUE(detector.alarms(TimePoint{}).empty());
}

TEST(BehaviourDetector, WhatIsHeldIsBounded) {
  Detector detector({.most_modules = 3});
  proto::SightSample sample;
  sample.set_self_ns(5);
  const std::vector<const proto::SightSample*> one{&sample};
  for (uint64_t m = 0; m < 10; ++m)
    detector.add({.name = "server 1", .process = 1}, {.process_kind = "chunkserver", .role_path = m}, one,
                 TimePoint{});
  EXPECT_EQ(detector.modules(), 3u);
  detector.alarms(TimePoint{} + std::chrono::hours(1));
  EXPECT_EQ(detector.modules(), 0u) << "what is not seen any more is forgotten";
}

}  // namespace
}  // namespace kintsugi::behaviour
