// Several have a process record at a time, and each leaves when it likes.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/trace_agent/agent_rig.h"

namespace kintsugi::tracing {
namespace {

using ::testing::HasSubstr;

TEST_F(SharedRecordings, BelongToTheirOwnersAndEndForNobodyElse) {
  KINTSUGI_ASSERT_OK(of(7));
  KINTSUGI_EXPECT_OK(of(7));
  EXPECT_EQ(agent.detach(8).code(), Code::kNotFound);
  EXPECT_EQ(rpc::follower(), &Following::of_process());
  KINTSUGI_EXPECT_OK(agent.detach(7));
  EXPECT_EQ(wait_for(Phase::kEnded).phase, Phase::kEnded);
  EXPECT_EQ(rpc::follower(), nullptr);
  EXPECT_EQ(of(7).code(), Code::kConflict) << "a late call begins nothing anew";
  KINTSUGI_EXPECT_OK(of(8));
}

TEST_F(SharedRecordings, GiveWhoeverLeavesWhatWasRecordedAndGoOnForTheOthers) {
  const std::string before = code();
  KINTSUGI_ASSERT_OK(of(7));
  (void)wait_for(Phase::kRecording);
  subject::outer();
  KINTSUGI_ASSERT_OK(of(8));
  EXPECT_EQ(agent.status().owners, 2);
  subject::catches();
  KINTSUGI_EXPECT_OK(agent.detach(7));
  const AgentStatus first = wait_for_end_of(7);
  EXPECT_EQ(agent.status(8).phase, Phase::kRecording);
  EXPECT_FALSE(code() == before);
  EXPECT_EQ(rpc::follower(), &Following::of_process());
  EXPECT_EQ(of(7).code(), Code::kConflict) << "a late call does not bring it in again";
  subject::beside();
  KINTSUGI_EXPECT_OK(agent.detach(8));
  const AgentStatus second = wait_for_end_of(8);
  EXPECT_TRUE(code() == before) << "the last one has the code given back";
  EXPECT_EQ(rpc::follower(), nullptr);
  EXPECT_NE(first.path, second.path);
  for (const AgentStatus& each : {first, second}) {
    EXPECT_EQ(each.end, End::kDetached);
    EXPECT_EQ(read_trace(each.path)->end, End::kDetached);
    EXPECT_EQ(read_trace(each.path)->lost, 0);
    EXPECT_EQ(calls(each, "outer"), 1);
    EXPECT_EQ(calls(each, "catches"), 1);
  }
  EXPECT_EQ(calls(first, "beside"), 0) << "it had left";
  EXPECT_EQ(calls(second, "beside"), 1);
}

TEST_F(SharedRecordings, EndAtTheDeadlineOfAnOwnerThatDiedForNobodyElse) {
  KINTSUGI_ASSERT_OK(of(8));
  (void)wait_for(Phase::kRecording);
  KINTSUGI_ASSERT_OK(of(7, std::chrono::milliseconds(100)));
  EXPECT_LE(agent.status(7).left, std::chrono::milliseconds(100));
  EXPECT_GT(agent.status(8).left, std::chrono::seconds(50));
  const AgentStatus died = wait_for_end_of(7);
  EXPECT_EQ(died.end, End::kDeadline);
  EXPECT_EQ(read_trace(died.path)->end, End::kDeadline);
  EXPECT_EQ(agent.status().phase, Phase::kRecording);
  EXPECT_EQ(agent.status().owners, 1);
  subject::outer();
  KINTSUGI_EXPECT_OK(agent.detach(8));
  EXPECT_EQ(calls(wait_for_end_of(8), "outer"), 1);
}

TEST_F(SharedRecordings, HaveEightOwnersAndAreFreeAgainWhenOneLeaves) {
  for (uint64_t owner = 1; owner <= Owners::kMost; ++owner)
    KINTSUGI_ASSERT_OK(of(owner));
  const Status ninth = of(9);
  EXPECT_EQ(ninth.code(), Code::kLimitExceeded);
  EXPECT_EQ(ninth.message(), "8 commands have this process record already: wait until one of them ends");
  KINTSUGI_EXPECT_OK(agent.detach(3));
  (void)wait_for_end_of(3);
  KINTSUGI_EXPECT_OK(of(9));
  KINTSUGI_EXPECT_OK(agent.detach());
  for (const uint64_t owner : {1, 2, 9})
    EXPECT_EQ(wait_for_end_of(owner).end, End::kDetachedByOther) << "detach without an owner is for all";
}

TEST_F(SharedRecordings, SayWhoseRecordingSomebodyElseEnded) {
  KINTSUGI_ASSERT_OK(of(7));
  KINTSUGI_ASSERT_OK(of(8));
  (void)wait_for(Phase::kRecording);
  KINTSUGI_EXPECT_OK(agent.detach(7));
  KINTSUGI_EXPECT_OK(agent.detach());
  KINTSUGI_EXPECT_OK(agent.detach(8));
  EXPECT_EQ(wait_for_end_of(7).end, End::kDetached) << "it left before";
  EXPECT_EQ(wait_for_end_of(8).end, End::kDetachedByOther) << "it only wanted to leave after that";
  KINTSUGI_ASSERT_OK(of(9));
  (void)wait_for(Phase::kRecording);
  KINTSUGI_EXPECT_OK(agent.detach());
  const AgentStatus ended = wait_for_end_of(9);
  EXPECT_EQ(ended.end, End::kDetachedByOther);
  EXPECT_EQ(read_trace(ended.path)->end, End::kDetached) << "earlier versions read it, too";
}

TEST_F(SharedRecordings, AreOfAllFunctionsAndOverwriteNothing) {
  const auto is_refused = [&](const AttachOptions& other) {
    const Status refused = agent.attach(other);
    EXPECT_THAT(refused.message(), HasSubstr("this process is being traced, for "));
    return refused.code() == Code::kAlreadyExists;
  };
  KINTSUGI_ASSERT_OK(of(7));
  AttachOptions circular = options_of(8), nobodys = options_of(0), function = options_of(9),
                values = options_of(10), later = options_of(11);
  circular.session.mode = Mode::kCircular;
  nobodys.follow.reset();
  function.session.start = "outer";
  values.session.recorded = {{"subject::outer", 1}};
  later.event = StartEvent{.kind = StartEvent::Kind::kAfter, .time = std::chrono::seconds(1)};
  for (const AttachOptions& each : {circular, nobodys, function, values, later}) {
    EXPECT_TRUE(is_refused(each));
    EXPECT_EQ(agent.status().owners, 1);
  }
  KINTSUGI_EXPECT_OK(agent.detach(7));
  (void)wait_for_end_of(7);
  for (const AttachOptions& each : {circular, nobodys, function, later}) {
    KINTSUGI_ASSERT_OK(agent.attach(each));
    EXPECT_TRUE(is_refused(options_of(12))) << "what was first is left alone, too";
    KINTSUGI_EXPECT_OK(agent.detach());
    (void)wait_for(Phase::kEnded);
  }
}

TEST_F(SharedRecordings, TellEveryoneThatTheMemoryIsFull) {
  KINTSUGI_ASSERT_OK(of(7));
  (void)wait_for(Phase::kRecording);
  KINTSUGI_ASSERT_OK(of(8));
  subject::call_empty(1'000'000);
  for (const uint64_t owner : {7, 8}) {
    const AgentStatus ended = wait_for_end_of(owner);
    EXPECT_EQ(ended.end, End::kFull);
    EXPECT_EQ(read_trace(ended.path)->end, End::kFull);
  }
}

TEST_F(SharedRecordings, EndAtTheTimeThatWasCountedFromTheirBeginning) {
  KINTSUGI_ASSERT_OK(of(8));
  (void)wait_for(Phase::kRecording);
  AttachOptions brief = options_of(7);
  brief.recorded_for = std::chrono::milliseconds(50);
  KINTSUGI_ASSERT_OK(agent.attach(brief));
  EXPECT_EQ(wait_for_end_of(7).end, End::kDeadline);
  EXPECT_EQ(agent.status(8).phase, Phase::kRecording);
}

TEST_F(SharedRecordings, AreCopiedWholeWhileThreadsGoOn) {
  std::atomic<bool> done{false};
  const auto work = [&done] {
    while (!done) {
      subject::outer();
      subject::catches();
      subject::deep(20);
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back(work);
  AttachOptions first = options_of(1);
  first.session.bytes = 64 << 20;
  KINTSUGI_ASSERT_OK(agent.attach(first));
  (void)wait_for(Phase::kRecording);
  int64_t before = 0;
  for (uint64_t owner = 2; owner <= 6; ++owner) {
    KINTSUGI_ASSERT_OK(of(owner));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    KINTSUGI_ASSERT_OK(agent.detach(owner));
    const AgentStatus ended = wait_for_end_of(owner);
    const auto trace = read_trace(ended.path);
    ASSERT_TRUE(trace) << trace.error().message();
    EXPECT_EQ(trace->lost, 0);
    EXPECT_GE(trace->threads.size(), 3);
    for (const ThreadTrace& thread : trace->threads) {
      size_t entries = 0, exits = 0, left_without_entry = 0;
      for (const Record& record : thread.records) {
        const bool is_exit = record.kind == Kind::kExit, is_known = (record.flags & kNoEntry) == 0;
        entries += record.kind == Kind::kEntry;
        exits += is_exit && is_known;
        left_without_entry += is_exit && !is_known;
      }
      EXPECT_EQ(thread.stack.size(), entries - exits) << "what is open at the end of the records";
      EXPECT_EQ(stack_at_begin(thread).size(), left_without_entry);
      EXPECT_NE(thread.tid, 0);
    }
    const int64_t now = calls(ended, "outer");
    EXPECT_GT(now, before) << "nothing that was there is missing later";
    before = now;
  }
  done = true;
  for (std::thread& each : threads)
    each.join();
  KINTSUGI_EXPECT_OK(agent.detach(1));
  EXPECT_GE(calls(wait_for_end_of(1), "outer"), before);
}

TEST_F(SharedRecordings, BeginAnewForWhoeverComesWhenTheLastOneLeaves) {
  const std::string before = code();
  for (uint64_t owner = 1; owner <= 40; ++owner) {
    Status begun = of(owner);
    for (int i = 0; i < 1000 && begun.code() == Code::kUnavailable; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      begun = of(owner);
    }
    KINTSUGI_ASSERT_OK(begun);
    if (owner % 3 != 0) subject::outer();
    KINTSUGI_ASSERT_OK(agent.detach(owner));
  }
  for (uint64_t owner = 30; owner <= 40; ++owner)
    EXPECT_EQ(wait_for_end_of(owner).end, End::kDetached);
  (void)wait_for(Phase::kEnded);
  EXPECT_TRUE(code() == before);
  EXPECT_EQ(rpc::follower(), nullptr);
}

TEST_F(SharedRecordings, OfManyOwnersOneAfterTheOtherAreRememberedForAWhile) {
  KINTSUGI_ASSERT_OK(of(1000));
  (void)wait_for(Phase::kRecording);
  for (uint64_t owner = 1; owner <= Owners::kMostEnded + 1; ++owner) {
    KINTSUGI_ASSERT_OK(of(owner));
    KINTSUGI_ASSERT_OK(agent.detach(owner));
    (void)wait_for_end_of(owner);
  }
  EXPECT_EQ(of(2).code(), Code::kConflict);
  EXPECT_EQ(agent.status(1).owner, 0) << "it is forgotten";
  EXPECT_EQ(agent.status(1000).phase, Phase::kRecording);
  KINTSUGI_EXPECT_OK(agent.detach(1000));
  (void)wait_for_end_of(1000);
  EXPECT_TRUE(agent.read(1000, 0, 100));
  const auto forgotten = agent.read(1, 0, 100);
  ASSERT_FALSE(forgotten) << "it is told so, and gets nobody else's trace";
  EXPECT_EQ(forgotten.error().code(), Code::kNotFound);
  EXPECT_THAT(forgotten.error().message(), HasSubstr("nothing is known of this recording any more"));
}

}  // namespace
}  // namespace kintsugi::tracing
