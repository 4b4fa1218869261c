// When an alarm is raised, what it is called, and when it is over.
#include <gtest/gtest.h>

#include "monitoring/daemon/alarms.h"

namespace kintsugi::monitoring {
namespace {

using Verdicts = std::vector<proto::Verdict>;

proto::Verdict verdict(const std::string& server,
                       proto::Verdict::Confidence confidence = proto::Verdict::CERTAIN,
                       uint32_t waiters = 3) {
  proto::Verdict verdict;
  verdict.set_server(server);
  verdict.set_region("chunkserver.read_chunk > disk.read");
  verdict.set_confidence(confidence);
  verdict.set_waiters(waiters);
  return verdict;
}

class AlarmsTest : public ::testing::Test {
 protected:
  /// One round, a second after the one before it.
  Verdicts round(Verdicts found) {
    now += 1s;
    wall += 1s;
    return alarms.round(std::move(found), now, wall);
  }
  void settle() {
    for (Duration passed{}; passed < Alarms::kSettle + 1s; passed += 1s)
      round({});
  }

  TimePoint now{1h};
  WallTime wall{1'000'000h};
  Alarms alarms;
};

TEST_F(AlarmsTest, StandFromTheFirstVerdictUntilTwoRoundsWithoutIt) {
  settle();
  const Verdicts raised = round({verdict("server 4")});
  ASSERT_EQ(raised.size(), 1u);
  EXPECT_EQ(raised[0].raised_wall_ns(), wall.time_since_epoch().count());
  EXPECT_EQ(raised[0].cleared_wall_ns(), 0);
  EXPECT_TRUE(round({verdict("server 4")}).empty()) << "it is the same alarm";
  EXPECT_TRUE(round({}).empty()) << "one report may be lost";
  EXPECT_TRUE(round({verdict("server 4")}).empty());
  EXPECT_TRUE(round({}).empty());
  const Verdicts cleared = round({});
  ASSERT_EQ(cleared.size(), 1u);
  EXPECT_EQ(cleared[0].id(), raised[0].id());
  EXPECT_GT(cleared[0].cleared_wall_ns(), cleared[0].raised_wall_ns());
  EXPECT_TRUE(alarms.standing().empty());
  ASSERT_EQ(alarms.history().size(), 1u);
  const Verdicts again = round({verdict("server 4")});
  ASSERT_EQ(again.size(), 1u);
  EXPECT_NE(again[0].id(), raised[0].id());
}

TEST_F(AlarmsTest, SayWhatIsKnownNowAndAreWrittenAgainWhenTheyBecomeSurer) {
  settle();
  round({verdict("server 4", proto::Verdict::UNSURE, 1)});
  EXPECT_TRUE(round({verdict("server 4", proto::Verdict::UNSURE, 7)}).empty());
  EXPECT_EQ(alarms.standing().at(0).waiters(), 7u);
  const Verdicts surer = round({verdict("server 4", proto::Verdict::CERTAIN, 7)});
  ASSERT_EQ(surer.size(), 1u);
  EXPECT_EQ(surer[0].confidence(), proto::Verdict::CERTAIN);
  EXPECT_EQ(surer[0].id(), alarms.standing().at(0).id());
}

TEST_F(AlarmsTest, TheWorstComesFirst) {
  proto::Verdict masked = verdict("masked");
  masked.set_masked(true);
  round({masked, verdict("unsure", proto::Verdict::UNSURE), verdict("few", proto::Verdict::CERTAIN, 1),
         verdict("many", proto::Verdict::CERTAIN, 9)});
  std::vector<std::string> order;
  for (const proto::Verdict& standing : alarms.standing())
    order.push_back(standing.server());
  EXPECT_EQ(order, (std::vector<std::string>{"many", "few", "unsure", "masked"}));
}

TEST_F(AlarmsTest, OfAnEarlierLifeStandUntilThereWasTimeToFindThemAgain) {
  proto::Verdict stands = verdict("server 4"), over = verdict("server 5"), begun = verdict("server 5");
  stands.set_id(7);
  stands.set_raised_wall_ns(1);
  begun.set_id(9);
  begun.set_raised_wall_ns(2);
  over = begun;
  over.set_cleared_wall_ns(3);
  for (const proto::Verdict& record : {stands, begun, over})
    alarms.restore(record);
  ASSERT_EQ(alarms.standing().size(), 1u);
  EXPECT_EQ(alarms.standing()[0].id(), 7u);
  EXPECT_EQ(alarms.history().size(), 1u);
  for (int i = 0; i < 9; ++i)
    EXPECT_TRUE(round({}).empty()) << "processes have to report first";
  EXPECT_TRUE(round({verdict("server 4")}).empty()) << "found again: no new alarm";
  EXPECT_EQ(alarms.standing().at(0).id(), 7u);
  EXPECT_EQ(alarms.standing().at(0).raised_wall_ns(), 1);
  EXPECT_EQ(round({verdict("server 6")}).at(0).id(), 10u) << "no number is given twice";
  EXPECT_EQ(round({}).at(0).id(), 7u) << "two clean rounds";
}

TEST_F(AlarmsTest, AreBounded) {
  settle();
  Verdicts many;
  for (size_t i = 0; i < Alarms::kMostStanding + 100; ++i)
    many.push_back(verdict("server " + std::to_string(i), proto::Verdict::LIKELY, static_cast<uint32_t>(i)));
  round(many);
  EXPECT_EQ(alarms.standing().size(), Alarms::kMostStanding);
  EXPECT_EQ(alarms.standing()[0].waiters(), Alarms::kMostStanding + 99) << "the worst are kept";
  for (int i = 0; i < 12; ++i) {
    round(many);
    round({});
    round({});
  }
  EXPECT_EQ(alarms.history().size(), Alarms::kMostHistory);
}

TEST_F(AlarmsTest, AWallClockThatGoesBackDoesNotMakeAnAlarmStandForEver) {
  settle();
  round({verdict("server 4")});
  wall -= 500h;
  round({});
  const Verdicts cleared = round({});
  ASSERT_EQ(cleared.size(), 1u);
  EXPECT_GT(cleared[0].cleared_wall_ns(), cleared[0].raised_wall_ns());
}

}  // namespace
}  // namespace kintsugi::monitoring
