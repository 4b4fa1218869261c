#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/proto/verdicts.h"
#include "tests/monitoring/report_rig.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;
using testing::HasSubstr;
using testing::SizeIs;

/// A get of k = 6 of 9 chunks: the tasks of the window and of its fetches.
struct Get : ReportRig {
  uint64_t reader = client();
  RigTask window = task(reader, "client.read_window");
  std::vector<RigTask> fetches, reads;

  explicit Get(int stuck) {
    for (int i = 1; i <= 9; i++) {
      fetches.push_back(task(reader, "client.fetch_chunk", window.span));
      const uint64_t call_span = call(fetches.back(), proto::WAIT_RECEIVE, i);
      reads.push_back(task(server(i), "chunkserver.read_chunk", call_span));
      disk(reads.back(), "sda");
      if (i > stuck) {
        moves(fetches.back());
        moves(reads.back());
      }
    }
    wait(window, proto::WAIT_JOIN, window.span, "", 6);
  }
};

TEST(WaitGraph, AGetThatGoesOnWithoutAStuckServerIsReportedAsMasked) {
  Get get(1);
  const auto verdicts = get.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].server(), "server 1");
  EXPECT_TRUE(verdicts[0].masked());
  EXPECT_THAT(proto::describe(verdicts[0]), HasSubstr("operations continue without it"));
}

TEST(WaitGraph, AGetThatLacksTooManyServersIsStuckAtEachOfThem) {
  Get get(4);
  const auto verdicts = get.diagnose();
  ASSERT_THAT(verdicts, SizeIs(4));
  for (const Verdict& verdict : verdicts)
    EXPECT_FALSE(verdict.masked());
}

TEST(WaitGraph, APutWhoseOneServerHangsNamesItsDiskAndNotTheOtherSenders) {
  ReportRig rig;
  const uint64_t writer = rig.client();
  const RigTask main = rig.task(writer, "client.write_file");
  std::vector<RigTask> senders;
  for (int i = 1; i <= 9; i++) {
    senders.push_back(rig.task(writer, "client.send_chunk", main.span));
    if (i != 5) {
      rig.wait(senders.back(), proto::WAIT_SIBLING, main.span);  // its queue is empty
      const RigTask handler = rig.task(rig.server(i), "chunkserver.write_chunk", senders.back().span);
      rig.wait(handler, proto::WAIT_UPSTREAM, senders.back().span);
    }
  }
  rig.wait(main, proto::WAIT_SIBLING, senders[4].span);  // that one's queue is full
  const RigTask handler =
      rig.task(rig.server(5), "chunkserver.write_chunk", rig.call(senders[4], proto::WAIT_SEND, 5));
  rig.disk(handler, "sdc");
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].server(), "server 5");
  EXPECT_EQ(verdicts[0].device(), "sdc");
  EXPECT_EQ(verdicts[0].waiters(), 18u);
}

TEST(WaitGraph, APutThatGoesOnWithoutAStuckServerIsReportedAsMasked) {
  // The sender has given that server up for another one. What it had begun there stands where it was.
  ReportRig rig;
  const uint64_t writer = rig.client();
  const RigTask main = rig.task(writer, "client.write_file");
  for (int i = 1; i <= 9; i++) {
    const RigTask sender = rig.task(writer, "client.send_chunk", main.span);
    const uint64_t span = rig.call(sender, proto::WAIT_SEND, i);
    if (i == 5) {
      proto::SightLive& wait = *rig.report(writer).mutable_live(rig.report(writer).live_size() - 1);
      wait.set_ended_ago_ns(100'000'000);
      wait.set_outcome(static_cast<uint32_t>(Code::kDeadlineExceeded));
    }
    const RigTask handler = rig.task(rig.server(i), "chunkserver.write_chunk", span);
    rig.moves(sender);
    if (i == 5)
      rig.disk(handler, "sdc");
    else
      rig.moves(handler);
  }
  rig.wait(main, proto::WAIT_JOIN, main.span);
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].server(), "server 5");
  EXPECT_EQ(verdicts[0].device(), "sdc");
  EXPECT_TRUE(verdicts[0].masked());
  EXPECT_EQ(verdicts[0].waiters(), 1u) << "the wait that has ended";
}

}  // namespace
}  // namespace kintsugi::progress
