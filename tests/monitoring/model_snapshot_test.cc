#include <gtest/gtest.h>

#include "common/proto/verdicts.h"
#include "monitoring/model/snapshot.h"

namespace kintsugi::model {
namespace {

constexpr TimePoint kNow{1h};

proto::SightReport report(uint64_t process, uint64_t sequence, std::string address = "10.0.0.4:7000") {
  proto::SightReport report;
  report.set_process(process);
  report.set_sequence(sequence);
  report.set_kind("chunkserver");
  report.set_name("server 4");
  report.set_address(std::move(address));
  return report;
}

TEST(ProcessView, KeepsTheDictionaryThatEarlierReportsBrought) {
  ProcessView view;
  proto::SightReport first = report(7, 1);
  proto::SightPath& path = *first.add_new_paths();
  path.set_path(99);
  path.set_site("disk.read");
  first.add_live()->set_path(99);
  ASSERT_TRUE(view.accept(first, kNow).ok());
  proto::SightReport second = report(7, 2);
  second.add_live()->set_path(99);
  ASSERT_TRUE(view.accept(second, kNow + 1s).ok());

  ASSERT_NE(view.path(99), nullptr);
  EXPECT_EQ(view.path(99)->site(), "disk.read");
  EXPECT_FALSE(view.lacks_dictionary());
  EXPECT_EQ(view.arrived(), kNow + 1s);
  EXPECT_EQ(view.display(), "server 4");
}

TEST(ProcessView, SaysThatItsDictionaryLacksWhatAReportNames) {
  ProcessView view;
  proto::SightReport late = report(7, 5);
  late.add_live()->set_path(99);
  ASSERT_TRUE(view.accept(late, kNow).ok());
  EXPECT_TRUE(view.lacks_dictionary());
  EXPECT_EQ(view.path(99), nullptr);
}

TEST(ProcessView, RefusesReplaysStrangersAndGarbageAndKeepsWhatItHad) {
  ProcessView view;
  ASSERT_TRUE(view.accept(report(7, 3), kNow).ok());
  EXPECT_EQ(view.accept(report(7, 3), kNow).code(), Code::kAlreadyExists);
  EXPECT_EQ(view.accept(report(8, 9), kNow).code(), Code::kConflict);
  EXPECT_EQ(view.accept(report(7, 0), kNow).code(), Code::kInvalidArgument);
  proto::SightReport long_name = report(7, 4);
  long_name.set_name(std::string(ViewLimits::kTextBytes + 1, 'x'));
  EXPECT_EQ(view.accept(long_name, kNow).code(), Code::kInvalidArgument);
  proto::SightReport crowded = report(7, 4);
  for (int i = 0; i <= ViewLimits::kLive; i++)
    crowded.add_live()->set_span(1);
  EXPECT_EQ(view.accept(crowded, kNow).code(), Code::kInvalidArgument);
  EXPECT_EQ(view.refused(), 3u);
  EXPECT_EQ(view.last().sequence(), 3u);
  EXPECT_TRUE(view.accept(report(7, 4), kNow).ok());
}

TEST(ProcessView, TotalsOfOneProcessDoNotFall) {
  ProcessView view;
  const auto with_count = [](uint64_t sequence, uint64_t count) {
    proto::SightReport full = report(7, sequence);
    proto::SightEdge& edge = *full.add_edges();
    edge.set_from(1);
    edge.set_to(2);
    edge.set_count(count);
    return full;
  };
  ASSERT_TRUE(view.accept(with_count(1, 10), kNow).ok());
  ASSERT_TRUE(view.accept(with_count(2, 4), kNow).ok());
  ASSERT_EQ(view.edges().size(), 1u);
  EXPECT_EQ(view.edges().begin()->second.count(), 10u);
}

TEST(Processes, AProcessThatIsStartedAgainTakesThePlaceOfTheFormer) {
  Processes processes;
  ASSERT_TRUE(processes.accept(report(7, 100), kNow).ok());
  ASSERT_TRUE(processes.accept(report(8, 1), kNow + 1s).ok());
  EXPECT_EQ(processes.size(), 1u);
  EXPECT_EQ(processes.find(7), nullptr);
  const Snapshot snapshot = processes.snapshot(kNow + 2s, 0, {});
  ASSERT_NE(snapshot.at("10.0.0.4:7000"), nullptr);
  EXPECT_EQ(snapshot.at("10.0.0.4:7000")->process(), 8u);
}

TEST(Processes, TheSilentAreForgottenAfterATime) {
  Processes processes;
  ASSERT_TRUE(processes.accept(report(7, 1, "a:1"), kNow).ok());
  proto::SightReport ended = report(8, 1, "b:1");
  ended.set_last(true);
  ASSERT_TRUE(processes.accept(ended, kNow).ok());
  processes.forget(kNow + 20s, 10s, 60s);
  EXPECT_NE(processes.find(7), nullptr);
  EXPECT_EQ(processes.find(8), nullptr);
}

TEST(Snapshot, SurvivesAFile) {
  Processes processes;
  proto::SightReport full = report(7, 1);
  full.add_new_paths()->set_path(99);
  full.add_new_states()->set_state(3);
  proto::SightRole& role = *full.add_roles();
  role.set_role(2);
  role.set_name("chunkserver.partial_sum");
  full.add_live()->set_path(99);
  full.add_edges()->set_count(5);
  full.add_waits()->set_ns(6);
  ASSERT_TRUE(processes.accept(full, kNow).ok());
  const std::string bytes = serialise(processes.snapshot(
      kNow + 3s, 77,
      {{.server_id = 4, .address = "10.0.0.4:7000", .name = "four", .liveness = Liveness::kSuspect}}));

  const Result<Snapshot> read = parse_snapshot(bytes);
  ASSERT_TRUE(read);
  ASSERT_EQ(read->processes.size(), 1u);
  const ProcessView& view = *read->processes[0];
  EXPECT_EQ(read->silent(view), 3s);
  EXPECT_EQ(view.role_name(2), "chunkserver.partial_sum");
  EXPECT_NE(view.path(99), nullptr);
  EXPECT_NE(view.state(3), nullptr);
  EXPECT_EQ(view.edges().size(), 1u);
  EXPECT_EQ(view.waits().size(), 1u);
  ASSERT_NE(read->server("10.0.0.4:7000", 0), nullptr);
  EXPECT_EQ(read->server("", 4)->liveness, Liveness::kSuspect);
}

TEST(Snapshot, CutBytesAreCorruptOrASmallerSnapshot) {
  Processes processes;
  ASSERT_TRUE(processes.accept(report(7, 1), kNow).ok());
  const std::string bytes = serialise(processes.snapshot(kNow, 77, {}));
  for (size_t length = 0; length < bytes.size(); length++) {
    const Result<Snapshot> read = parse_snapshot(std::string_view(bytes).substr(0, length));
    if (!read) EXPECT_EQ(read.error().code(), Code::kCorrupt);
  }
}

}  // namespace
}  // namespace kintsugi::model
