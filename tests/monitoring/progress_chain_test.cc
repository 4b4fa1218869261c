#include <algorithm>
#include <set>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/proto/verdicts.h"
#include "tests/monitoring/report_rig.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

/// A repair of a chain root <- A <- B <- C: server 1 is the root, 2 is A, 4 is B, 9 is C. B's own read stands still.
struct Chain : ReportRig {
  uint64_t meta = metaserver(), root = server(1), a = server(2), b = server(4), c = server(9);
  RigTask repair, root_task, root_child, a_task, a_child, a_own, b_task, b_child, b_own, c_task, c_own;

  Chain() {
    repair = task(meta, "repair_manager.repair");
    root_task = task(root, "chunkserver.repair_chunk", call(repair, proto::WAIT_CALL, 1));
    root_child = task(root, "repair_tree.child_sum", root_task.span);
    wait(root_task, proto::WAIT_SIBLING, root_child.span);
    a_task = task(a, "chunkserver.partial_sum", call(root_child, proto::WAIT_RECEIVE, 2));
    a_child = task(a, "repair_tree.child_sum", a_task.span);
    a_own = task(a, "chunkserver.partial_sum_own", a_task.span);
    wait(a_task, proto::WAIT_SIBLING, a_child.span);
    wait(a_own, proto::WAIT_SIBLING, a_child.span);  // its window is full
    b_task = task(b, "chunkserver.partial_sum", call(a_child, proto::WAIT_RECEIVE, 4));
    b_child = task(b, "repair_tree.child_sum", b_task.span);
    b_own = task(b, "chunkserver.partial_sum_own", b_task.span);
    wait(b_task, proto::WAIT_SIBLING, b_own.span);
    wait(b_child, proto::WAIT_SIBLING, b_own.span);
    disk(b_own, "sdb");
    c_task = task(c, "chunkserver.partial_sum", b_child.span);
    c_own = task(c, "chunkserver.partial_sum_own", c_task.span);
    wait(c_task, proto::WAIT_UPSTREAM, b_child.span);
    wait(c_own, proto::WAIT_SIBLING, c_task.span);
  }
};

TEST(WaitGraph, NamesTheDiskOfTheMiddleOfAChain) {
  Chain chain;
  chain.usual(chain.b, "chunkserver.partial_sum_own", proto::WAIT_DISK, 1'000);
  const auto verdicts = chain.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  const Verdict& verdict = verdicts[0];
  EXPECT_EQ(verdict.kind(), Verdict::DEVICE);
  EXPECT_EQ(verdict.server(), "server 4");
  EXPECT_EQ(verdict.device(), "sdb");
  EXPECT_EQ(verdict.region(), "chunkserver.partial_sum_own");
  EXPECT_EQ(verdict.file(), "src/chunkserver.partial_sum_own.cc");
  EXPECT_EQ(verdict.waiters(), 10u);
  EXPECT_THAT(verdict.servers_waiting(), ElementsAre("server 1", "server 2", "server 4", "server 9"));
  EXPECT_THAT(verdict.processes_waiting(),
              UnorderedElementsAre(chain.meta, chain.root, chain.a, chain.b, chain.c));
  EXPECT_EQ(verdict.confidence(), Verdict::CERTAIN);
  EXPECT_FALSE(verdict.masked());
  // From the repair's root to the disk, and nobody twice.
  ASSERT_GE(verdict.chain_size(), 7);
  EXPECT_EQ(verdict.chain(0).process(), "metaserver");
  EXPECT_EQ(verdict.chain(0).region(), "repair_manager.repair");
  EXPECT_EQ(verdict.chain(0).waits_for(), "server 1");
  EXPECT_EQ(verdict.chain(verdict.chain_size() - 1).region(), "device sdb");
  EXPECT_THAT(proto::describe(verdict),
              HasSubstr("server 4: chunkserver.partial_sum_own (sdb), no progress for 40 s, "
                        "10 tasks on 4 servers wait for it"));
}

TEST(WaitGraph, WhoHasDoneLeastIsNotTheCulpritOfAChain) {
  // C ran ahead of B by its window, and what stands above B waits for it: by counts root or A would be behind.
  Chain chain;
  for (const auto& [task, units] : {std::pair(chain.root_task, 39), std::pair(chain.a_task, 39),
                                    std::pair(chain.b_task, 40), std::pair(chain.c_task, 42)})
    chain.live(task).set_progress(units);
  const auto verdicts = chain.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].server(), "server 4");
  EXPECT_EQ(verdicts[0].device(), "sdb");
}

TEST(SourceSlice, BeginsAtTheCulpritAndGoesOutOverTheCallsThatBroughtTheWork) {
  Chain chain;
  chain.live(chain.b_own).set_file("chunk_reader.cc");
  chain.live(chain.b_own).set_line(88);
  const auto verdicts = chain.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  ASSERT_GE(verdicts[0].slice_size(), 5);
  EXPECT_EQ(verdicts[0].slice(0).file(), "chunk_reader.cc");
  EXPECT_EQ(verdicts[0].slice(0).line(), 88u);
  EXPECT_EQ(verdicts[0].slice(0).process(), "server 4");
  std::vector<std::string> files;
  for (const proto::ChainLink& place : verdicts[0].slice())
    files.push_back(place.file());
  EXPECT_THAT(files, testing::IsSupersetOf({"src/chunkserver.partial_sum.cc", "src/repair_tree.child_sum.cc",
                                            "src/repair_manager.repair.cc"}));
  std::sort(files.begin(), files.end());
  EXPECT_EQ(std::unique(files.begin(), files.end()), files.end());
}

TEST(WaitGraph, AStoppedProcessIsNamedFromItsPeersWaits) {
  Chain chain;
  chain.silence(chain.b, 9s);
  const auto verdicts = chain.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::SILENT);
  EXPECT_EQ(verdicts[0].server(), "server 4");
  EXPECT_EQ(verdicts[0].confidence(), Verdict::CERTAIN);
}

TEST(WaitGraph, ALostFrameOfAStreamBlamesTheLink) {
  Chain chain;
  // B has sent its sum, and waits for A to take it; A waits for a frame of B.
  chain.wait(chain.b_task, proto::WAIT_UPSTREAM, chain.live(chain.b_task).parent());
  chain.wait(chain.b_own, proto::WAIT_SIBLING, chain.b_task.span);
  const auto verdicts = chain.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::LINK);
  EXPECT_EQ(verdicts[0].server(), "server 4");
  EXPECT_EQ(verdicts[0].peer(), "server 2");
  std::set<std::tuple<std::string, std::string, proto::WaitKind>> links;
  for (const proto::ChainLink& link : verdicts[0].chain())
    links.emplace(link.process(), link.region(), link.wait());
  EXPECT_TRUE(links.contains({"server 2", "repair_tree.child_sum", proto::WAIT_RECEIVE}));
  EXPECT_TRUE(links.contains({"server 4", "chunkserver.partial_sum", proto::WAIT_UPSTREAM}));
}

TEST(WaitGraph, ALoopThatIsHeldByCodeIsNamedWithItsStack) {
  Chain chain;
  proto::SightLoop& loop = *chain.report(chain.b).mutable_loop();
  loop.set_stalled_ns(5'000'000'000);
  loop.add_symbols("kintsugi::erasure::multiply");
  *loop.mutable_last_touch() = chain.live(chain.b_own);
  const auto verdicts = chain.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::RUNNING);
  EXPECT_EQ(verdicts[0].server(), "server 4");
  EXPECT_THAT(verdicts[0].stack(), ElementsAre("kintsugi::erasure::multiply"));
  EXPECT_EQ(verdicts[0].region(), "chunkserver.partial_sum_own");
  EXPECT_GE(verdicts[0].waiters(), 5u);
}

TEST(WaitGraph, AReadThatTheDiskAnsweredIsNotTheDisksFault) {
  Chain chain;
  proto::SightDevice& sdb = chain.device(chain.b, "sdb");
  sdb.set_submitted(100);
  sdb.set_completed(100);
  const auto verdicts = chain.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::STUCK);
  EXPECT_EQ(verdicts[0].server(), "server 4");
  EXPECT_EQ(verdicts[0].region(), "chunkserver.partial_sum_own");
}

TEST(WaitGraph, WithoutHistoryAVerdictIsUnsureAndSaysWhy) {
  Chain chain;
  const auto verdicts = chain.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].confidence(), Verdict::UNSURE);
  EXPECT_DOUBLE_EQ(verdicts[0].probability(), 0.5);
  EXPECT_THAT(verdicts[0].why(0), HasSubstr("no earlier case"));
}

TEST(WaitGraph, ATruncatedReportLowersTheConfidence) {
  Chain chain;
  chain.usual(chain.b, "chunkserver.partial_sum_own", proto::WAIT_DISK, 1'000);
  chain.report(chain.b).set_truncated(true);
  const auto verdicts = chain.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].confidence(), Verdict::LIKELY);
}

TEST(WaitGraph, OneReportIsNotEnough) {
  Chain chain;
  EXPECT_THAT(chain.engine().diagnose(chain.snapshot()), IsEmpty());
  EXPECT_THAT(chain.engine().diagnose(chain.snapshot()), SizeIs(1));
}

TEST(WaitGraph, OneReportThatIsReadTwiceIsNotEnough) {
  Chain chain;
  const model::Snapshot snapshot = chain.snapshot();
  EXPECT_THAT(chain.engine().diagnose(snapshot), IsEmpty());
  EXPECT_THAT(chain.engine().diagnose(snapshot), IsEmpty());
}

TEST(WaitGraph, WhoeverWaitsForOneThatMovesIsNotStuck) {
  Chain chain;
  chain.moves(chain.b_own);
  EXPECT_THAT(chain.diagnose(), IsEmpty());
}

}  // namespace
}  // namespace kintsugi::progress
