// Reports that are cut, huge, or hold what cannot be: nobody falls over them, and they make nobody else a certain culprit.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/proto/verdicts.h"
#include "monitoring/model/worker_model.h"
#include "monitoring/progress/texts/comparison.h"
#include "tests/monitoring/report_rig.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;
using testing::IsEmpty;
using testing::SizeIs;

/// No method finds anything certain in it.
void expect_harmless(const model::Snapshot& snapshot) {
  const auto expect_none_certain = [](const std::vector<Verdict>& verdicts) {
    for (const Verdict& verdict : verdicts)
      EXPECT_NE(verdict.confidence(), Verdict::CERTAIN) << proto::describe(verdict);
  };
  for (const bool compare_siblings : {true, false})
    expect_none_certain(Engine({.rounds = 1, .compare_siblings = compare_siblings}).diagnose(snapshot));
  for (const Method method : {Method::kTargetsHidden, Method::kProdometer, Method::kAutomaDeD,
                              Method::kAutomaDeDSemi, Method::kOldestSpan, Method::kSilence})
    expect_none_certain(Comparison(method, 1).diagnose(snapshot));
}

/// A get that waits for server 2, whose disk does not answer.
struct StuckRead : ReportRig {
  uint64_t reader = client(), callee = server(2);
  RigTask fetch = task(reader, "client.fetch_chunk");
  RigTask read = task(callee, "chunkserver.read_chunk", call(fetch, proto::WAIT_RECEIVE, 2));

  StuckRead() {
    disk(read, "sda");
    usual(callee, "chunkserver.read_chunk", proto::WAIT_DISK, 1'000);
  }
};

TEST(BadReports, CutAtAnyByteTheyMakeNobodyElseACertainCulprit) {
  const std::string whole = [] {
    StuckRead rig;
    rig.report(rig.callee).set_sequence(1);
    return rig.report(rig.callee).SerializeAsString();
  }();
  size_t taken = 0, named = 0;
  for (size_t bytes = 0; bytes <= whole.size(); bytes++) {
    StuckRead rig;
    proto::SightReport cut;
    if (!cut.ParseFromArray(whole.data(), static_cast<int>(bytes))) continue;
    taken++;
    rig.report(rig.callee) = cut;
    for (const Verdict& verdict : rig.diagnose()) {
      EXPECT_TRUE(verdict.confidence() != Verdict::CERTAIN || verdict.server() == "server 2")
          << bytes << " of " << whole.size() << " bytes: " << proto::describe(verdict);
      named += verdict.device() == "sda" ? 1 : 0;
    }
  }
  EXPECT_GT(taken, 10u);
  EXPECT_LT(taken, whole.size()) << "most are no report any more";
  EXPECT_GE(named, 1u) << "the whole one names the disk";
}

/// Live records that wait for each other at random, as many as there is room for.
proto::SightReport mebibyte_of_records() {
  std::mt19937_64 random(5);
  proto::SightReport report;
  report.set_process(9);
  report.set_sequence(1);
  report.set_kind("chunkserver");
  report.set_address("10.0.0.9:7000");
  report.set_all_live(true);
  report.add_live();
  size_t bytes = report.ByteSizeLong();
  while (true) {
    proto::SightLive live;
    const auto number = static_cast<uint32_t>(report.live_size());
    live.set_task(number);
    live.set_task_root(true);
    live.set_trace(1 + random() % 50);
    live.set_span(number);
    live.set_parent(random() % 20'000);
    live.set_age_ns(40'000'000'000);
    live.set_still_ns(40'000'000'000);
    live.set_wait(static_cast<proto::WaitKind>(random() % proto::WaitKind_ARRAYSIZE));
    live.set_target("10.0.0.9:7000");
    live.set_target_span(random() % 20'000);
    const size_t more = live.ByteSizeLong() + 2;  // its tag and its length
    if (bytes + more > model::ViewLimits::kReportBytes) return report;
    bytes += more;
    *report.add_live() = std::move(live);
  }
}

TEST(BadReports, AMebibyteOfRecordsIsTakenAndAnalysedAndMoreIsRefused) {
  proto::SightReport report = mebibyte_of_records();
  EXPECT_GT(report.live_size(), 10'000);
  model::Processes processes;
  ASSERT_TRUE(processes.accept(report, TimePoint(1h)).ok());
  expect_harmless(processes.snapshot(TimePoint(1h), 0, {}));
  report.set_sequence(2);
  report.mutable_live(0)->set_target(std::string(500, 'x'));
  EXPECT_EQ(processes.accept(report, TimePoint(1h)).code(), Code::kInvalidArgument);
}

TEST(BadReports, TenThousandStatesAreTakenAndAnalysed) {
  constexpr uint32_t kStates = 10'000;
  std::mt19937_64 random(6);
  ReportRig rig;
  const uint64_t server = rig.server(1);
  const std::vector<RigTask> tasks{rig.task(server, "chunkserver.read_chunk", 4711),
                                   rig.task(server, "chunkserver.partial_sum", 4711)};
  proto::SightReport& report = rig.report(server);
  for (uint32_t i = 1; i <= kStates; i++) {
    proto::SightState& state = *report.add_new_states();
    state.set_state(2'000'000 + i);
    state.set_role_path(i);
    state.set_role(1);
    for (int way = 0; way < 1 + static_cast<int>(i % 2);
         way++) {  // in no order, so that all is one great knot
      proto::SightEdge& edge = *report.add_edges();
      edge.set_from(2'000'000 + i);
      edge.set_to(2'000'001 + static_cast<uint32_t>(random() % kStates));
      edge.set_count(1 + random() % 9);
    }
  }
  for (const RigTask& task : tasks)
    rig.live(task).set_state(2'000'001 + static_cast<uint32_t>(random() % kStates));
  model::Processes processes;
  report.set_sequence(1);
  ASSERT_TRUE(processes.accept(report, TimePoint(1h)).ok());
  EXPECT_GE(processes.find(server)->states().size(), size_t{kStates});
  expect_harmless(processes.snapshot(TimePoint(1h), 0, {}));
}

TEST(BadReports, EdgesWithoutARoleOrAStateSayNothingOfAnyTask) {
  StuckRead rig;
  proto::SightReport& report = rig.report(rig.callee);
  report.clear_edges();
  proto::SightState& without_role = *report.add_new_states();
  without_role.set_state(2'000'001);
  without_role.set_role_path(hash_name("nobody"));
  for (const auto& [from, to] : {std::pair(2'000'001, 2'000'001), std::pair(3'000'000, 3'000'001)}) {
    proto::SightEdge& edge = *report.add_edges();
    edge.set_from(from);
    edge.set_to(to);
    edge.set_count(1'000);
    edge.set_sum(1'000 * 22 * 256);
    edge.set_sum_sq(1'000 * 22 * 22 * 65'536LL);
  }
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].device(), "sda");
  EXPECT_EQ(verdicts[0].confidence(), Verdict::UNSURE) << "nothing is known of how long it reads";
  const model::Snapshot snapshot = rig.snapshot();
  const model::ProcessView& view = *snapshot.at(ReportRig::address(2));
  EXPECT_THAT(model::WorkerModel::of(view).edges(), SizeIs(2));
  EXPECT_THAT(model::WorkerModel::of(view, "chunkserver.read_chunk").edges(), IsEmpty());
}

}  // namespace
}  // namespace kintsugi::progress
