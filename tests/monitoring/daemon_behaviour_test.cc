// Guardian in the monitor: whom it asks for executions, what it makes of them, and what it leaves alone.
#include <cmath>
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "common/base/draws.h"
#include "monitoring/daemon/behaviour_detector.h"
#include "monitoring/daemon/detectors.h"

namespace kintsugi::monitoring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Five chunkservers and a client that report once a second; servers read, and say how many bytes.
class Servers {
 public:
  explicit Servers(BehaviourDetector& detector) : detector_(detector) {}

  std::vector<proto::Verdict> seconds(int count) {
    std::vector<proto::Verdict> verdicts;
    for (int i = 0; i < count; ++i) {
      now_ += 1s;
      ++sequence_;
      for (uint64_t server = 1; server <= 5; ++server)
        report(server, "chunkserver");
      report(6, "client");
      verdicts = detector_.examine(processes_.snapshot(now_, 0, {}));
    }
    return verdicts;
  }
  int asked_of(uint64_t server) const { return asked_.contains(server) ? asked_.at(server) : 0; }

  uint64_t slow = 0, starved = 0;
  double factor = 1;

 private:
  void report(uint64_t server, const std::string& kind) {
    proto::SightReport report;
    report.set_process(100 + server);
    report.set_kind(kind);
    report.set_name("server-" + std::to_string(server));
    report.set_server_id(server);
    report.set_sequence(sequence_);
    report.set_uptime_ns(sequence_ * 1'000'000'000);
    proto::SightSystem& system = *report.mutable_system();
    system.set_machine("machine");
    system.set_loop_cpu_ns(sequence_ * 100'000'000);
    if (server == starved) delayed_ += 800'000'000;
    if (server == 2) system.set_loop_delay_ns(delayed_);
    path(report, 1, 0, "chunkserver.read_chunk", false);
    path(report, 2, 1, "disk.read", true);
    if (wanted_.contains(server))
      for (int i = 0; i < 60; ++i)
        sample(report, server);
    EXPECT_TRUE(processes_.accept(report, now_).ok());
    detector_.report_came(*processes_.find(100 + server), report, now_);
    const auto sites = detector_.wants_samples_of(100 + server);
    wanted_.erase(server);
    if (sites.empty()) return;
    EXPECT_THAT(sites, ElementsAre("disk.read")) << "only what says what it works on";
    wanted_.insert(server);
    ++asked_[server];
  }
  static void path(proto::SightReport& report, uint64_t id, uint64_t parent, const std::string& site,
                   bool inputs) {
    proto::SightPath& path = *report.add_new_paths();
    path.set_path(id);
    path.set_parent(parent);
    path.set_role_path(id);
    path.set_site(site);
    path.set_file("disk.cc");
    path.set_line(12);
    if (inputs) path.add_inputs("bytes");
  }
  void sample(proto::SightReport& report, uint64_t server) {
    proto::SightSample& sample = *report.add_samples();
    sample.set_path(2);
    const double bytes = std::floor(std::exp2(draws_.uniform(12, 20)));
    sample.add_inputs(static_cast<float>(bytes));
    double time = (80e3 + 4 * bytes) * std::exp(0.08 * draws_.normal());
    if (server == slow) time *= factor;
    sample.set_self_ns(static_cast<uint64_t>(time));
  }

  BehaviourDetector& detector_;
  model::Processes processes_;
  Draws draws_{4};
  TimePoint now_{1h};
  uint64_t sequence_ = 0, delayed_ = 0;
  std::set<uint64_t> wanted_;
  std::map<uint64_t, int> asked_;
};

TEST(BehaviourDetectorOfTheMonitor, AsksServersEveryTenSecondsAndClientsNever) {
  BehaviourDetector detector;
  Servers servers(detector);
  servers.seconds(100);
  EXPECT_EQ(servers.asked_of(1), 10);
  EXPECT_EQ(servers.asked_of(6), 0);
}

TEST(BehaviourDetectorOfTheMonitor, NamesRegionAndServerUnsurelyAndTakesItBack) {
  BehaviourDetector detector;
  Servers servers(detector);
  EXPECT_THAT(servers.seconds(400), IsEmpty()) << "all are well";
  ASSERT_FALSE(detector.detector().learnt().empty());
  servers.slow = 3;
  servers.factor = 3;
  const auto verdicts = servers.seconds(30);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].kind(), proto::Verdict::BEHAVIOUR);
  EXPECT_EQ(verdicts[0].server(), "server-3");
  EXPECT_EQ(verdicts[0].region(), "chunkserver.read_chunk > disk.read");
  EXPECT_EQ(verdicts[0].confidence(), proto::Verdict::UNSURE);
  EXPECT_TRUE(verdicts[0].masked()) << "nobody is held up";
  servers.slow = 0;
  EXPECT_THAT(servers.seconds(60), IsEmpty());
}

TEST(BehaviourDetectorOfTheMonitor, WhoHasNoProcessorIsNotJudged) {
  BehaviourDetector detector;
  Servers servers(detector);
  servers.seconds(400);
  servers.slow = servers.starved = 2;
  servers.factor = 3;
  servers.seconds(20);  // what was under way when it began
  EXPECT_THAT(servers.seconds(100), IsEmpty());
}

TEST(BehaviourDetectorOfTheMonitor, RunsOnlyWhenItIsAskedFor) {
  const auto has = [](bool behaviour) {
    for (const auto& detector : make_detectors(behaviour))
      if (detector->name() == "behaviour") return true;
    return false;
  };
  EXPECT_TRUE(has(true));
  EXPECT_FALSE(has(false));
}

}  // namespace
}  // namespace kintsugi::monitoring
