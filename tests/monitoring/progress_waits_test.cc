#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/monitoring/report_rig.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(WaitGraph, AHandlersCallerIsFoundByItsCallingContextWhileItDoesSomethingElse) {
  // The stream is no region: while the caller waits for its own disk, nobody holds the stream's span.
  ReportRig rig;
  const uint64_t reader = rig.server(1), writer = rig.server(2);
  const RigTask caller = rig.task(reader, "chunkserver.repair_chunk");
  const RigTask handler = rig.task(writer, "chunkserver.partial_sum", 999'999);
  rig.disk(caller, "sda");
  rig.wait(handler, proto::WAIT_UPSTREAM, 999'999);
  const uint64_t call_path = hash_name("rpc.PartialSum");
  proto::SightPath& call = *rig.report(reader).add_new_paths();
  call.set_path(call_path);
  call.set_parent(hash_name("chunkserver.repair_chunk"));
  for (proto::SightPath& path : *rig.report(writer).mutable_new_paths())
    path.set_parent(call_path);
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].server(), "server 1");
  EXPECT_EQ(verdicts[0].device(), "sda");
  EXPECT_EQ(verdicts[0].waiters(), 1u);
}

TEST(WaitGraph, AHandlerWhoseCallerIsAtWorkElsewhereAccusesNobody) {
  ReportRig rig;
  const RigTask handler = rig.task(rig.server(2), "chunkserver.partial_sum", 999'999);
  rig.wait(handler, proto::WAIT_UPSTREAM, 999'999);
  rig.moves(rig.task(rig.server(1), "chunkserver.repair_chunk"));
  EXPECT_THAT(rig.diagnose(), IsEmpty());
}

TEST(WaitGraph, AheadOfOneThatStillMovesIsNoCircle) {
  // The consumer waits for all contributors; the one that ran ahead waits for the consumer, the other one is slow.
  ReportRig rig;
  const uint64_t server = rig.server(1);
  const RigTask consumer = rig.task(server, "chunkserver.repair_chunk");
  const RigTask ahead = rig.task(server, "repair_tree.child_sum", consumer.span);
  const RigTask slow = rig.task(server, "repair_tree.child_sum", consumer.span);
  rig.wait(consumer, proto::WAIT_JOIN, consumer.span);
  rig.wait(ahead, proto::WAIT_SIBLING, consumer.span);
  rig.moves(slow);
  EXPECT_THAT(rig.diagnose(), IsEmpty());
}

TEST(WaitGraph, AheadOfOneThatStandsStillPointsAtThatOne) {
  ReportRig rig;
  const uint64_t server = rig.server(1);
  const RigTask consumer = rig.task(server, "chunkserver.repair_chunk");
  const RigTask ahead = rig.task(server, "repair_tree.child_sum", consumer.span);
  const RigTask stuck = rig.task(server, "chunkserver.partial_sum_own", consumer.span);
  rig.wait(consumer, proto::WAIT_JOIN, consumer.span);
  rig.wait(ahead, proto::WAIT_SIBLING, consumer.span);
  rig.disk(stuck, "sdd");
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].device(), "sdd");
  EXPECT_EQ(verdicts[0].waiters(), 2u);
}

TEST(WaitGraph, AJoinOfChildrenThatNobodyMarkedIsNeverCertain) {
  ReportRig rig;
  const uint64_t server = rig.server(1);
  const RigTask join = rig.task(server, "chunkserver.scrub");
  rig.wait(join, proto::WAIT_JOIN, join.span);
  rig.usual(server, "chunkserver.scrub", proto::WAIT_JOIN, 10'000);
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].confidence(), Verdict::LIKELY);
}

TEST(WaitGraph, WhoWasNotToldThatItsChildrenEndedIsNamedSoonerThanWhoWaitsForOneThatIsOpen) {
  for (const bool has_child : {true, false}) {
    ReportRig rig;
    const uint64_t server = rig.server(1);
    const RigTask join = rig.task(server, "repair_manager.repair", 0, 77, 4500ms);
    if (has_child) rig.moves(rig.task(server, "repair_manager.call_root", join.span));
    rig.wait(join, proto::WAIT_JOIN, join.span);
    EXPECT_THAT(rig.diagnose(), SizeIs(has_child ? 0 : 1));
  }
}

TEST(WaitGraph, TwoFaultsGiveTwoVerdicts) {
  ReportRig rig;
  for (const int number : {3, 6}) {
    const RigTask get =
        rig.task(rig.client("client " + std::to_string(number)), "client.fetch_chunk", 0, 70 + number);
    const RigTask read =
        rig.task(rig.server(number), "chunkserver.read_chunk", rig.call(get, proto::WAIT_RECEIVE, number));
    if (number == 3) rig.disk(read, "sda");
  }
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(2));
  EXPECT_THAT((std::vector{verdicts[0].server(), verdicts[1].server()}),
              testing::UnorderedElementsAre("server 3", "server 6"));
}

TEST(WaitGraph, ACertainCulpritIsNamedBesideOneThatManyMoreWaitFor) {
  ReportRig rig;
  for (const auto& [number, waiting] : {std::pair(3, 20), std::pair(6, 1)}) {
    const uint64_t server = rig.server(number);
    const RigTask holder = rig.task(server, "chunkserver.segment_append");
    rig.usual(server, "chunkserver.segment_append", proto::WAIT_NONE, 1'000);
    for (int i = 0; i < waiting; i++)
      rig.wait(rig.task(server, "serve.WriteSmallChunk", 0, 100 * number + i), proto::WAIT_SIBLING,
               holder.span);
  }
  std::vector<std::string> named;
  for (const Verdict& verdict : rig.diagnose())
    named.push_back(verdict.server());
  EXPECT_THAT(named, ElementsAre("server 3", "server 6"));
}

TEST(WaitGraph, AHandlerThatItsCallerHasGivenUpIsReportedAsMaskedBesideAnotherFault) {
  ReportRig rig;
  const RigTask holder = rig.task(rig.server(3), "chunkserver.segment_append");
  for (int i = 0; i < 20; i++)
    rig.wait(rig.task(rig.server(3), "serve.WriteSmallChunk", 0, 100 + i), proto::WAIT_SIBLING, holder.span);
  rig.task(rig.server(6), "serve.ReadChunk", /*parent=*/12345);
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(2));
  EXPECT_EQ(verdicts[0].server(), "server 3");
  EXPECT_FALSE(verdicts[0].masked());
  EXPECT_EQ(verdicts[1].server(), "server 6");
  EXPECT_TRUE(verdicts[1].masked());
}

TEST(WaitGraph, HoldersOfSlotsAmongEachOtherAreADeadlock) {
  ReportRig rig;
  const uint64_t process = rig.server(1);
  const RigTask one = rig.task(process, "chunkserver.read_chunk"),
                two = rig.task(process, "chunkserver.write_chunk");
  rig.wait(one, proto::WAIT_RESOURCE, two.span, "buffers");
  rig.wait(two, proto::WAIT_RESOURCE, one.span, "gates");
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::DEADLOCK);
  EXPECT_EQ(verdicts[0].chain_size(), 2);
}

TEST(MachineDisks, DisksThatStopTogetherAreTheirMachinesAndNoServers) {
  for (const size_t hanging : {2, 3}) {
    ReportRig rig;
    std::vector<RigTask> writes;
    for (int number = 1; number <= 5; number++) {
      const uint64_t server = rig.server(number);
      rig.report(server).mutable_system()->set_machine("boot-1");
      rig.report(server).set_host("node-a");
      rig.device(server, "/disk").set_submitted(10);
      if (number > static_cast<int>(hanging)) continue;
      writes.push_back(rig.task(server, "chunkserver.commit"));
      rig.disk(writes.back(), "/disk");
      rig.device(server, "/disk").set_oldest_pending_ns(40'000'000'000);
    }
    const auto verdicts = rig.diagnose();
    ASSERT_THAT(verdicts, SizeIs(hanging == 3 ? 1 : 2));
    EXPECT_EQ(verdicts[0].kind(), Verdict::DEVICE);
    if (hanging < 3) continue;
    EXPECT_EQ(verdicts[0].server(), "machine node-a");
    EXPECT_THAT(verdicts[0].why(0), HasSubstr("3 of the 5"));
    // The last one that goes on is not accused for it.
    rig.moves(writes[0]);
    rig.moves(writes[1]);
    const auto later = rig.diagnose();
    ASSERT_THAT(later, SizeIs(1));
    EXPECT_EQ(later[0].server(), "machine node-a");
    rig.sleep(20s);
    const auto alone = rig.diagnose();
    ASSERT_THAT(alone, SizeIs(1));
    EXPECT_EQ(alone[0].server(), "server 3") << "it still stands still when the others have long gone on";
  }
}

TEST(MachineDisks, DisksOfSeveralMachinesAreEachServers) {
  ReportRig rig;
  for (int number = 1; number <= 3; number++) {
    const uint64_t server = rig.server(number);
    rig.report(server).mutable_system()->set_machine("boot-" + std::to_string(number));
    rig.disk(rig.task(server, "chunkserver.commit"), "/disk");
    rig.device(server, "/disk").set_oldest_pending_ns(40'000'000'000);
  }
  EXPECT_THAT(rig.diagnose(), SizeIs(3));
}

TEST(WaitGraph, WhatNobodyGivesBackIsNamedWhereItIsAwaited) {
  // Who joins a task that waits for a buffer has none to give back either.
  ReportRig rig;
  const uint64_t server = rig.server(1);
  rig.wait(rig.task(server, "chunkserver.write_chunk", 0, 77, 14s), proto::WAIT_RESOURCE, 0, "buffers");
  const RigTask read = rig.task(server, "chunkserver.read_chunk", 0, 78, 14s);
  rig.wait(rig.task(server, "chunkserver.read_ahead", read.span, 78, 14s), proto::WAIT_RESOURCE, 0,
           "buffers");
  rig.wait(read, proto::WAIT_JOIN, read.span);
  const auto verdicts = rig.diagnose();
  ASSERT_FALSE(verdicts.empty());
  for (const Verdict& verdict : verdicts) {
    EXPECT_EQ(verdict.kind(), Verdict::STUCK);
    EXPECT_EQ(verdict.server(), "server 1");
  }
}

TEST(WaitGraph, WhoHasALeaseThatOthersWaitForIsNamedWhenItIsStopped) {
  for (const bool is_stopped : {true, false}) {
    ReportRig rig;
    const uint64_t mount = rig.process("mount", "mount 4711", "");
    rig.task(mount, "client.await_recalls");
    const RigTask reader = rig.task(rig.client(), "client.open");
    const uint64_t span = rig.call(reader, proto::WAIT_CALL, "10.0.0.100:6000");
    const RigTask handler = rig.task(rig.metaserver(), "serve.OpenRead", span);
    rig.wait(handler, proto::WAIT_PROCESS, mount, "write lease");
    if (is_stopped) rig.silence(mount, 8s);
    if (!is_stopped) rig.moves(RigTask{mount, 0, 0});
    const auto verdicts = rig.diagnose();
    ASSERT_THAT(verdicts, SizeIs(is_stopped ? 1 : 0))
        << "one that reports is still writing out what it kept back";
    if (!is_stopped) continue;
    EXPECT_EQ(verdicts[0].server(), "mount 4711");
    EXPECT_EQ(verdicts[0].kind(), Verdict::CLIENT);
    EXPECT_FALSE(verdicts[0].masked()) << "another client waits for it";
  }
}

TEST(WaitGraph, WhoHasALeaseAndIsStoppedIsNamedBeforeTheLeaseIsTakenFromIt) {
  // Such waits usually take seconds, since much is written out meanwhile. A stopped process writes nothing out.
  ReportRig rig;
  const uint64_t mount = rig.process("mount", "mount 4711", "");
  rig.moves(rig.task(mount, "client.await_recalls"));
  const uint64_t meta = rig.metaserver();
  rig.usual(meta, "serve.OpenRead", proto::WAIT_PROCESS, 0);
  proto::SightEdge& seconds = *rig.report(meta).mutable_edges(0);
  seconds.set_count(100);
  seconds.set_sum(100 * 32 * 256);
  seconds.set_sum_sq(int64_t{100} * 32 * 32 * 65'536);
  seconds.clear_buckets();
  for (int octave = 0; octave < 32; octave++)
    seconds.add_buckets(octave == 31 ? 100 : 0);
  const RigTask reader = rig.task(rig.client(), "client.open", 0, 77, 3s);
  const uint64_t span = rig.call(reader, proto::WAIT_CALL, "10.0.0.100:6000");
  const RigTask handler = rig.task(meta, "serve.OpenRead", span, 77, 3s);
  rig.wait(handler, proto::WAIT_PROCESS, mount, "write lease");
  EXPECT_THAT(rig.diagnose(), IsEmpty()) << "it reports, and may be writing out";
  rig.silence(mount, 4s);
  rig.sleep(4s);
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::CLIENT);
  EXPECT_EQ(verdicts[0].server(), "mount 4711");
}

TEST(WaitGraph, WhatAnEndedTaskHasNotGivenBackIsNamedSoonAndWhatAMovingOneHasIsNot) {
  for (const bool is_open : {true, false}) {
    ReportRig rig;
    const uint64_t manager = rig.process("repair-manager", "repair manager 1", "10.0.0.50:7002");
    const RigTask repair = rig.task(manager, "repair_manager.repair");
    rig.moves(repair);
    // Who asks for a repair gives up after five seconds, so it has to be known before.
    const RigTask handler = rig.task(manager, "serve.RepairStripe", 0, 78, 1500ms);
    rig.wait(handler, proto::WAIT_RESOURCE, repair.span, "repair slots");
    rig.live(handler).set_holder_ended(!is_open);
    const auto verdicts = rig.diagnose();
    ASSERT_THAT(verdicts, SizeIs(is_open ? 0 : 1));
    if (is_open) continue;
    EXPECT_EQ(verdicts[0].kind(), Verdict::STUCK);
    EXPECT_EQ(verdicts[0].server(), "repair manager 1");
    EXPECT_THAT(verdicts[0].why(0), HasSubstr("without giving it back"));
  }
}

TEST(WaitGraph, ACircleThatClosesOnlyByAGuessIsNone) {
  // Both wait for buffers of which nobody says who holds them, and one of them is waited for by the other's child.
  ReportRig rig;
  const uint64_t process = rig.server(1);
  const RigTask one = rig.task(process, "chunkserver.read_chunk");
  const RigTask two = rig.task(process, "chunkserver.write_chunk");
  rig.wait(one, proto::WAIT_RESOURCE, 0, "buffers");
  rig.wait(two, proto::WAIT_SIBLING, one.span);
  EXPECT_THAT(rig.diagnose(), IsEmpty());
}

TEST(WaitGraph, OfACallerThatNobodyKnowsTheServerThatWaitsForItIsNamedToo) {
  ReportRig rig;
  const RigTask handler = rig.task(rig.server(1), "chunkserver.write_chunk", 4711);
  rig.wait(handler, proto::WAIT_UPSTREAM, 4711, "10.0.1.77:5000");
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::CLIENT);
  EXPECT_EQ(verdicts[0].server(), "client 10.0.1.77:5000");
  EXPECT_EQ(verdicts[0].peer(), "server 1");
}

TEST(WaitGraph, AClientThatDoesNotReadIsNoServersFault) {
  ReportRig rig;
  const RigTask reader = rig.task(rig.client(), "client.write_sink");
  const RigTask handler = rig.task(rig.server(1), "chunkserver.read_chunk", reader.span);
  rig.wait(handler, proto::WAIT_UPSTREAM, reader.span);
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::CLIENT);
  EXPECT_EQ(verdicts[0].server(), "client 10.0.1.1");
  EXPECT_TRUE(verdicts[0].masked());  // it is its own operation that waits
}

TEST(WaitGraph, AClientThatHoldsUpAnotherIsACulprit) {
  ReportRig rig;
  const uint64_t server = rig.server(1);
  const RigTask reader = rig.task(rig.client(), "client.write_sink", 0, 77);
  const RigTask serving = rig.task(server, "chunkserver.read_chunk", reader.span, 77);
  rig.wait(serving, proto::WAIT_UPSTREAM, reader.span);
  const RigTask other = rig.task(rig.client("client 10.0.1.2"), "client.open", 0, 88);
  const RigTask waiting = rig.task(server, "chunkserver.seal", rig.call(other, proto::WAIT_CALL, 1), 88);
  rig.wait(waiting, proto::WAIT_SIBLING, serving.span);
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].server(), "client 10.0.1.1");
  EXPECT_FALSE(verdicts[0].masked());
}

TEST(WaitGraph, TheIdleAndTheSleepingAreNotStuck) {
  ReportRig rig;
  for (const proto::WaitKind kind : {proto::WAIT_IDLE, proto::WAIT_TIMER})
    rig.wait(rig.task(rig.server(1), "chunkserver.heartbeat"), kind, 0);
  EXPECT_THAT(rig.diagnose(), IsEmpty());
}

TEST(WaitGraph, ATaskThatGoesRoundWithoutProgressStandsStill) {
  // Its waits are short: it sends an empty frame every few seconds to keep its stream open.
  ReportRig rig;
  const RigTask task = rig.task(rig.server(1), "chunkserver.partial_sum");
  rig.live(task).set_progress(39);
  rig.live(task).set_age_ns(300'000'000);
  EXPECT_THAT(rig.diagnose(), SizeIs(1));
}

TEST(WaitGraph, AWaitThatIsUsuallyShortIsAHangAfterASecond) {
  ReportRig rig;
  const RigTask task = rig.task(rig.server(1), "chunkserver.read_chunk", 0, 77, 1500ms);
  rig.disk(task, "sda");
  EXPECT_THAT(rig.diagnose(), IsEmpty());
  rig.usual(rig.server(1), "chunkserver.read_chunk", proto::WAIT_DISK, 1'000);
  rig.sleep(10s);
  EXPECT_THAT(rig.diagnose(), SizeIs(1));
}

TEST(WaitGraph, WhatCannotMoveWhileCodeHoldsTheLoopDoesNotStandStill) {
  for (const bool held : {false, true}) {
    ReportRig rig;
    const uint64_t server = rig.server(1);
    const RigTask task = rig.task(server, "chunkserver.commit", 0, 77, 2200ms);
    rig.disk(task, "sda");
    rig.usual(server, "chunkserver.commit", proto::WAIT_DISK, 1'000);
    if (held) rig.report(server).mutable_loop()->set_stalled_ns(1'900'000'000);
    EXPECT_THAT(rig.diagnose(), SizeIs(held ? 0 : 1));
  }
}

TEST(WaitGraph, AChainSurvivesTheDeadlineThatEndedIt) {
  ReportRig rig;
  const uint64_t caller = rig.client(), callee = rig.server(2);
  const RigTask fetch = rig.task(caller, "client.fetch_chunk");
  const uint64_t span = rig.call(fetch, proto::WAIT_RECEIVE, 2);
  const RigTask read = rig.task(callee, "chunkserver.read_chunk", span);
  rig.disk(read, "sda");
  ASSERT_THAT(rig.diagnose(), SizeIs(1));
  // The wait ends by its deadline, and is reported once as ended. The read at the server stays where it is.
  proto::SightLive ended = rig.report(caller).live(1);
  ended.set_ended_ago_ns(100'000'000);
  ended.set_outcome(static_cast<uint32_t>(Code::kDeadlineExceeded));
  rig.report(caller).clear_live();
  *rig.report(caller).add_live() = ended;
  ASSERT_THAT(rig.diagnose(), SizeIs(1));
  rig.report(caller).clear_live();
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].server(), "server 2");
  EXPECT_TRUE(verdicts[0].masked());
  EXPECT_EQ(verdicts[0].waiters(), 1u);
  EXPECT_EQ(verdicts[0].chain(0).process(), "client 10.0.1.1");
  EXPECT_THAT(verdicts[0].chain(0).state(), HasSubstr("deadline"));
}

TEST(WaitGraph, AServerThatIsMissedByAllIsNamedThoughNobodyWaits) {
  ReportRig rig;
  const uint64_t server = rig.server(3);
  rig.servers().push_back({.server_id = server,
                           .address = ReportRig::address(3),
                           .name = "server 3",
                           .liveness = model::Liveness::kDead});
  rig.silence(server, 12s);
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::SILENT);
  EXPECT_EQ(verdicts[0].server(), "server 3");
}

TEST(WaitGraph, AProcessThatSaidThatItEndsIsNotMissed) {
  ReportRig rig;
  const uint64_t server = rig.server(3);
  rig.report(server).set_last(true);
  rig.servers().push_back({.server_id = server,
                           .address = ReportRig::address(3),
                           .name = "server 3",
                           .liveness = model::Liveness::kDead});
  rig.silence(server, 12s);
  EXPECT_THAT(rig.diagnose(), IsEmpty());
}

TEST(WaitGraph, SpansInACircleAreAnswered) {
  ReportRig rig;
  const RigTask one = rig.task(rig.server(1), "a"), two = rig.task(rig.server(2), "b");
  rig.live(one).set_parent(two.span);
  rig.live(two).set_parent(one.span);
  rig.live(one).set_target(ReportRig::address(2));
  rig.wait(one, proto::WAIT_CALL, one.span, ReportRig::address(2));
  rig.wait(two, proto::WAIT_CALL, two.span, ReportRig::address(1));
  EXPECT_THAT(rig.diagnose(), SizeIs(testing::Le(2)));
}

}  // namespace
}  // namespace kintsugi::progress
