// The agent of a process, asked as an operator asks it.
#include "tracing/agent/agent.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <sys/resource.h>

#include "common/proto/trace.pb.h"
#include "common/runtime/production/production_runtime.h"
#include "tests/trace_agent/rig.h"
#include "tracing/agent/trace_service.h"

namespace kintsugi::tracing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

struct AgentOfAProcess : Traced {
  ~AgentOfAProcess() override {
    (void)agent.detach();
    (void)wait_for(Phase::kEnded);
  }
  Status attach(const std::string& start, Duration limit = std::chrono::seconds(60)) {
    return agent.attach({.session = {directory_.path(), start, Mode::kLinear, 4 << 20}, .limit = limit});
  }
  AgentStatus wait_for(Phase phase) {
    for (int i = 0; i < 1000; ++i) {
      const AgentStatus now = agent.status();
      if (now.phase == phase || now.phase == Phase::kFailed || now.phase == Phase::kIdle) return now;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "the agent did not get there";
    return agent.status();
  }
  Agent& agent = Agent::of_process();
};

TEST_F(AgentOfAProcess, RecordsFromTheStartFunctionUntilItIsDetached) {
  KINTSUGI_ASSERT_OK(attach("outer"));
  EXPECT_EQ(wait_for(Phase::kWaiting).phase, Phase::kWaiting);
  subject::outer();
  const AgentStatus recording = wait_for(Phase::kRecording);
  EXPECT_GT(recording.left, Duration{});
  EXPECT_GE(recording.met, 3);
  EXPECT_LE(recording.met, recording.patched);
  KINTSUGI_EXPECT_OK(agent.detach());
  const AgentStatus ended = wait_for(Phase::kEnded);
  const auto trace = read_trace(ended.path);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->threads.at(0).records.size(), 11);
}

TEST_F(AgentOfAProcess, GivesTheCodeBackWhenNobodyDetachesIt) {
  const std::string before = code();
  KINTSUGI_ASSERT_OK(attach("all", std::chrono::milliseconds(200)));
  EXPECT_EQ(wait_for(Phase::kEnded).phase, Phase::kEnded);
  EXPECT_EQ(code(), before);
  EXPECT_EQ(read_trace(agent.status().path)->end, End::kDeadline);
}

TEST_F(AgentOfAProcess, IsFreeForTheNextAfterItGotNoThread) {
  GTEST_FLAG_SET(death_test_style,
                 "threadsafe");  // in a process of its own, which keeps no stacks of threads that ended
  const auto attach_without_and_with_memory = [&] {
    rlimit before{};
    ::getrlimit(RLIMIT_AS, &before);
    const rlimit none{1 << 20, before.rlim_max};
    ::setrlimit(RLIMIT_AS, &none);
    const Status refused = attach("all");
    ::setrlimit(RLIMIT_AS, &before);
    const Status done = attach("all");
    std::fprintf(stderr, "first: %s; then: %s\n", refused.to_string().c_str(), done.to_string().c_str());
    std::_Exit(refused.ok() || !done.ok());
  };
  EXPECT_EXIT(attach_without_and_with_memory(), ::testing::ExitedWithCode(0), "a thread to record with");
}

TEST_F(AgentOfAProcess, EndsWhenTheMemoryIsFull) {
  KINTSUGI_ASSERT_OK(attach("all"));
  (void)wait_for(Phase::kRecording);
  subject::call_empty(1'000'000);
  EXPECT_EQ(wait_for(Phase::kEnded).phase, Phase::kEnded);
  EXPECT_EQ(read_trace(agent.status().path)->end, End::kFull);
}

TEST_F(AgentOfAProcess, IsAttachedOnceAtATime) {
  KINTSUGI_ASSERT_OK(attach("outer"));
  const Status second = attach("all");
  EXPECT_EQ(second.code(), Code::kAlreadyExists);
  EXPECT_THAT(second.message(), HasSubstr("s more"));
  EXPECT_EQ(agent.read(0, 0, 100).error().code(), Code::kConflict);
}

TEST_F(AgentOfAProcess, SaysWhatCannotBeDone) {
  EXPECT_EQ(agent.detach().code(), Code::kNotFound);
  EXPECT_EQ(attach("").code(), Code::kInvalidArgument);
  EXPECT_EQ(attach("outer\n2026-11-28 error of nobody").code(), Code::kInvalidArgument);
  EXPECT_EQ(attach("all", Duration{}).code(), Code::kInvalidArgument);
  EXPECT_EQ(attach("all", std::chrono::hours(25)).code(), Code::kInvalidArgument);
  KINTSUGI_ASSERT_OK(attach("no_such_function"));
  const AgentStatus failed = wait_for(Phase::kFailed);
  EXPECT_EQ(failed.failure.code(), Code::kNotFound);
}

struct SharedRecordings : AgentOfAProcess {
  AttachOptions options_of(uint64_t owner, Duration limit = std::chrono::seconds(60)) const {
    return {.session = {directory_.path(), "all", Mode::kLinear, 4 << 20},
            .owner = owner,
            .limit = limit,
            .follow = FollowTerms{.hops = 1}};
  }
  Status of(uint64_t owner, Duration limit = std::chrono::seconds(60)) {
    return agent.attach(options_of(owner, limit));
  }
  AgentStatus wait_for_end_of(uint64_t owner) {
    for (int i = 0; i < 1000 && agent.status(owner).is_busy(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(agent.status(owner).phase, Phase::kEnded);
    EXPECT_EQ(agent.status(owner).owner, owner);
    return agent.status(owner);
  }
  /// How often a function was entered, in a trace of an owner.
  static int64_t calls(const AgentStatus& ended, const std::string& function) {
    const auto trace = read_trace(ended.path);
    EXPECT_TRUE(trace) << (trace ? "" : trace.error().message());
    int64_t found = 0;
    for (size_t thread = 0; trace && thread < trace->threads.size(); ++thread)
      found += std::ranges::count(lines(*trace, thread), ">" + function);
    return found;
  }
};

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
    EXPECT_EQ(wait_for_end_of(owner).end, End::kDetached) << "detach without an owner is for all";
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
}

struct FollowedCalls : ::testing::Test {
  FollowedCalls() { begin(7, {.hops = 2, .method = rpc::Method::kReadChunk, .bytes = 4 << 20}); }
  ~FollowedCalls() override { following.end(0); }
  void begin(uint64_t owner, FollowTerms terms) {
    terms.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    following.begin(owner, terms);
  }
  /// Nobody but this one is there from now on.
  void begin_alone(uint64_t owner, const FollowTerms& terms) {
    following.end(0);
    begin(owner, terms);
  }
  uint32_t follows(uint64_t call, rpc::Method method) {
    return following.follows({kConnection, call, method});
  }
  /// Of a call for a ReadChunk that came.
  std::vector<rpc::Announcement> announcements(const std::string& peer) {
    return following.announcements(peer, {kConnection, 3, rpc::Method::kPartialSum},
                                   follows(1, rpc::Method::kReadChunk));
  }
  bool announces(const std::string& peer) { return !announcements(peer).empty(); }
  static constexpr uint64_t kConnection = 0x50;
  Following& following = Following::of_process();
};

TEST_F(FollowedCalls, AreThoseOfTheMethodAndThoseThatWereAnnounced) {
  EXPECT_NE(follows(1, rpc::Method::kReadChunk), 0);
  EXPECT_EQ(follows(2, rpc::Method::kWriteChunk), 0);
  KINTSUGI_EXPECT_OK(following.expect(7, kConnection, 2));
  EXPECT_EQ(follows(3, rpc::Method::kWriteChunk), 0);
  EXPECT_NE(follows(2, rpc::Method::kWriteChunk), 0);
  EXPECT_EQ(follows(2, rpc::Method::kWriteChunk), 0) << "it comes once";
  EXPECT_EQ(following.requests(7), 2);
  for (uint64_t call = 0; call < Following::kMostExpected; ++call)
    KINTSUGI_ASSERT_OK(following.expect(7, kConnection, call));
  EXPECT_EQ(following.expect(7, kConnection, Following::kMostExpected).code(), Code::kLimitExceeded);
}

TEST_F(FollowedCalls, OfEveryMethodAreAllButThoseOfWhoTraces) {
  begin_alone(7, {.hops = 2, .everything = true});
  EXPECT_NE(follows(1, rpc::Method::kWriteChunk), 0);
  EXPECT_EQ(follows(2, rpc::Method::kTrace), 0);
}

TEST_F(FollowedCalls, AreAnnouncedToWhoDidNotRefuse) {
  const auto asked = announcements("127.0.0.1:1");
  ASSERT_EQ(asked.size(), 1);
  EXPECT_EQ(asked[0].owner, 7);
  proto::TraceRequest request;
  ASSERT_TRUE(request.ParseFromString(asked[0].request));
  EXPECT_EQ(request.action(), proto::TraceRequest::FOLLOW);
  EXPECT_EQ(request.owner(), 7);
  EXPECT_EQ(request.hops(), 1);
  EXPECT_EQ(request.connection(), kConnection);
  EXPECT_EQ(request.call(), 3);
  EXPECT_GT(request.limit_ms(), 0);
  EXPECT_LE(request.limit_ms(), 10'001);
  following.announced("127.0.0.1:1", 7, {});
  EXPECT_TRUE(announces("127.0.0.1:1")) << "it has to know each call";
  following.announced("127.0.0.1:1", 7, {Code::kUnavailable, "it died"});
  EXPECT_FALSE(announces("127.0.0.1:1"));
  EXPECT_TRUE(announces("127.0.0.1:2"));
  const auto peers = following.peers(7);
  ASSERT_EQ(peers.size(), 2) << "also the one that has not answered";
  EXPECT_EQ(peers.at("127.0.0.1:1").message(), "it died");
}

TEST_F(FollowedCalls, OfSeveralOwnersAreAnnouncedForThoseWhoseTheyAre) {
  begin(8, {.hops = 3});
  KINTSUGI_EXPECT_OK(following.expect(8, kConnection, 5));
  const uint32_t of_first = follows(1, rpc::Method::kReadChunk),
                 of_second = follows(5, rpc::Method::kWriteChunk);
  EXPECT_NE(of_first, 0);
  EXPECT_NE(of_second, 0);
  EXPECT_EQ(of_first & of_second, 0);
  const auto owners_of = [&](uint32_t bits, const std::string& peer) {
    std::vector<uint64_t> owners;
    for (const rpc::Announcement& each :
         following.announcements(peer, {kConnection, 9, rpc::Method::kPartialSum}, bits))
      owners.push_back(each.owner);
    return owners;
  };
  EXPECT_THAT(owners_of(of_first, "127.0.0.1:1"), ElementsAre(7));
  EXPECT_THAT(owners_of(of_second, "127.0.0.1:2"), ElementsAre(8));
  EXPECT_THAT(owners_of(of_first, "127.0.0.1:1"), ElementsAre(7));
  EXPECT_EQ(following.peers(8).count("127.0.0.1:1"), 0) << "its request never went there";
  EXPECT_EQ(following.requests(7), 1);
  EXPECT_EQ(following.requests(8), 1);
  // A request that both want, for one follows its method and the other one announced it.
  KINTSUGI_EXPECT_OK(following.expect(8, kConnection, 6));
  const uint32_t of_both = follows(6, rpc::Method::kReadChunk);
  EXPECT_EQ(of_both, of_first | of_second);
  EXPECT_THAT(owners_of(of_both, "127.0.0.1:1"), UnorderedElementsAre(7, 8));
  // What one was refused, the other one was not.
  following.announced("127.0.0.1:1", 8, {Code::kLimitExceeded, "too many"});
  EXPECT_THAT(owners_of(of_both, "127.0.0.1:1"), ElementsAre(7));
  following.end(7);
  EXPECT_EQ(follows(7, rpc::Method::kReadChunk), 0);
  EXPECT_THAT(owners_of(of_both, "127.0.0.1:3"), ElementsAre(8)) << "the other one's go on";
  EXPECT_EQ(rpc::follower(), &following);
}

TEST_F(FollowedCalls, OfAnOwnerWhoLeftAreNotTakenForThoseOfTheNext) {
  const uint32_t of_first = follows(1, rpc::Method::kReadChunk);
  following.end(7);
  for (uint64_t owner = 100; owner < 100 + Following::kPlaces - 1; ++owner) {
    begin(owner, {.hops = 2});
    EXPECT_TRUE(
        following.announcements("127.0.0.1:1", {kConnection, 3, rpc::Method::kPartialSum}, of_first).empty());
    following.end(owner);
  }
}

TEST_F(FollowedCalls, OfANewRecordingAreNotHeldToLateAnswersOfAnEarlierOne) {
  ASSERT_TRUE(announces("127.0.0.1:1"));
  begin_alone(8, {.hops = 2, .everything = true});
  ASSERT_TRUE(announces("127.0.0.1:1"));
  following.announced("127.0.0.1:1", 7, {Code::kConflict, "its recording has ended"});
  following.announced("127.0.0.1:2", 7, {});
  EXPECT_TRUE(announces("127.0.0.1:1")) << "it refused somebody else";
  ASSERT_EQ(following.peers(8).size(), 1) << "and nobody asked 127.0.0.1:2 for this one";
}

TEST_F(FollowedCalls, OfTheProcessItselfAreCountedWhileItIsRecorded) {
  EXPECT_EQ(rpc::own_work({}).followed, 0) << "requests of a method are followed, and no other ones";
  following.end(0);
  following.begin(8, {.hops = 2, .own_work = true});
  EXPECT_NE(rpc::own_work({.connection = 5}).followed, 0);
  EXPECT_EQ(rpc::own_work({.connection = 5}).connection, 5);
  EXPECT_EQ(following.requests(8), 2);
  EXPECT_EQ(follows(1, rpc::Method::kReadChunk), 0) << "it came from outside";
  following.end(8);
  EXPECT_EQ(rpc::own_work({}).followed, 0);
}

TEST_F(FollowedCalls, GoNoFurtherThanTheirHopsAndTheRecording) {
  begin_alone(7, {.hops = 0, .everything = true});
  EXPECT_FALSE(announces("127.0.0.1:1"));
  EXPECT_EQ(following.peers(7).at("127.0.0.1:1").code(), Code::kLimitExceeded);
  begin_alone(7, {.hops = 1, .everything = true});
  EXPECT_TRUE(following.peers(7).empty());
  const uint32_t of_it = follows(1, rpc::Method::kReadChunk);
  following.end(7);
  EXPECT_EQ(follows(1, rpc::Method::kReadChunk), 0);
  EXPECT_TRUE(
      following.announcements("127.0.0.1:1", {kConnection, 3, rpc::Method::kPartialSum}, of_it).empty());
  EXPECT_EQ(following.expect(7, kConnection, 1).code(), Code::kConflict);
}

struct TraceCalls : SharedRecordings {
  TraceCalls() {
    server.handle(rpc::Method::kStat,
                  [](Context, const proto::TraceRequest&, proto::TraceResponse&) -> asio::awaitable<Status> {
                    co_return Status{};
                  });
  }
  Status call(const proto::TraceRequest& request) {
    Status status;
    answer.Clear();
    asio::co_spawn(loop, service(Context(), request, answer),
                   [&](const std::exception_ptr&, Status result) { status = std::move(result); });
    loop.run();
    loop.restart();
    return status;
  }
  asio::io_context loop;  ///< with the clock that waits for the agent's thread
  runtime::ProductionRuntime production;
  rpc::Server server{production.runtime(), rpc::Secret(), nullptr};
  TraceService service{server};
  proto::TraceResponse answer;
};

TEST_F(TraceCalls, BringTheTraceInPieces) {
  proto::TraceRequest request;
  request.set_action(proto::TraceRequest::ATTACH);
  request.set_start("all");
  request.set_bytes(4 << 20);
  request.set_limit_ms(60'000);
  KINTSUGI_ASSERT_OK(call(request));
  (void)wait_for(Phase::kRecording);
  subject::call_empty(50'000);
  request.Clear();
  request.set_action(proto::TraceRequest::DETACH);
  KINTSUGI_ASSERT_OK(call(request));
  (void)wait_for(Phase::kEnded);
  std::string whole;
  request.set_action(proto::TraceRequest::READ);
  do {
    request.set_offset(whole.size());
    KINTSUGI_ASSERT_OK(call(request));
    whole += answer.data();
  } while (!answer.data().empty());
  EXPECT_GT(whole.size(), TraceService::kMostBytes);
  const auto trace = parse_trace(std::as_bytes(std::span(whole)));
  ASSERT_TRUE(trace) << trace.error().message();
  // The calls that bring it are recorded, too.
  EXPECT_EQ(std::ranges::count(lines(*trace), ">empty"), 50'000);
  std::filesystem::remove(answer.path());
}

TEST_F(TraceCalls, OfSeveralOwnersAskForWhatIsTheirOwn) {
  const auto ask = [&](proto::TraceRequest::Action action, uint64_t owner, uint64_t number = 0) {
    proto::TraceRequest request;
    request.set_action(action);
    request.set_owner(owner);
    request.set_hops(1);
    request.set_bytes(4 << 20);
    request.set_limit_ms(60'000);
    request.set_connection(0x50);
    request.set_call(number);
    return call(request);
  };
  const auto calls_of = [&](uint64_t owner) {
    EXPECT_TRUE(ask(proto::TraceRequest::READ, owner).ok());
    const std::string begin = answer.data();
    KINTSUGI_EXPECT_OK(ask(proto::TraceRequest::STATUS, owner));
    std::ifstream file(answer.path(), std::ios::binary);
    std::string same(begin.size(), ' ');
    file.read(same.data(), static_cast<std::streamsize>(same.size()));
    EXPECT_TRUE(same == begin) << "this owner's trace is read";
    const int64_t found = calls(Agent::of_process().status(owner), "outer");
    std::filesystem::remove(answer.path());
    return found;
  };
  EXPECT_EQ(ask(proto::TraceRequest::FOLLOW, 0).code(), Code::kInvalidArgument);
  KINTSUGI_ASSERT_OK(ask(proto::TraceRequest::FOLLOW, 71, 1));
  KINTSUGI_ASSERT_OK(ask(proto::TraceRequest::FOLLOW, 72, 2));
  EXPECT_EQ(answer.owner(), 72);
  EXPECT_EQ(answer.owners(), 2);
  Following& following = Following::of_process();
  EXPECT_NE(following.follows({0x50, 1, rpc::Method::kStat}),
            following.follows({0x50, 2, rpc::Method::kStat}));
  subject::outer();
  KINTSUGI_ASSERT_OK(ask(proto::TraceRequest::DETACH, 71));
  EXPECT_EQ(ask(proto::TraceRequest::READ, 72).code(), Code::kConflict) << "it goes on";
  (void)wait_for_end_of(71);
  KINTSUGI_ASSERT_OK(ask(proto::TraceRequest::STATUS, 71));
  EXPECT_EQ(answer.requests(), 1);
  EXPECT_EQ(answer.end(), proto::TraceResponse::DETACHED);
  EXPECT_EQ(calls_of(71), 1);
  subject::outer();
  EXPECT_EQ(ask(proto::TraceRequest::FOLLOW, 71, 3).code(), Code::kConflict);
  KINTSUGI_ASSERT_OK(ask(proto::TraceRequest::STATUS, 73));
  EXPECT_EQ(answer.owner(), 0) << "it knows no such owner, and says what the process does";
  EXPECT_EQ(answer.phase(), proto::TraceResponse::RECORDING);
  // The next one comes while the last one leaves.
  KINTSUGI_ASSERT_OK(ask(proto::TraceRequest::DETACH, 72));
  KINTSUGI_ASSERT_OK(ask(proto::TraceRequest::FOLLOW, 74, 4));
  (void)wait_for_end_of(72);
  EXPECT_EQ(calls_of(72), 2);
  subject::outer();
  KINTSUGI_ASSERT_OK(ask(proto::TraceRequest::DETACH, 74));
  (void)wait_for_end_of(74);
  EXPECT_GE(calls_of(74), 1);
}

TEST_F(TraceCalls, SayWhichMethodsTheDaemonServes) {
  proto::TraceRequest request;
  request.set_action(proto::TraceRequest::ATTACH);
  request.set_start("method:ReadChunk");
  const Status unknown = call(request);
  EXPECT_EQ(unknown.code(), Code::kNotFound);
  EXPECT_EQ(unknown.message(),
            "this daemon does not serve \"ReadChunk\"; it serves ChangeFaults, SecretStatus, Stat");
}

TEST_F(TraceCalls, RefuseWhatMakesNoSense) {
  proto::TraceRequest request;
  request.set_action(proto::TraceRequest::ATTACH);
  request.set_start("all");
  request.set_limit_ms(~uint64_t{0});
  EXPECT_EQ(call(request).code(), Code::kInvalidArgument);
  request.set_limit_ms(1000);
  request.set_bytes(~uint64_t{0});
  EXPECT_EQ(call(request).code(), Code::kInvalidArgument);
  request.set_action(static_cast<proto::TraceRequest::Action>(17));
  EXPECT_EQ(call(request).code(), Code::kInvalidArgument);
  request.set_action(proto::TraceRequest::DETACH);
  EXPECT_EQ(call(request).code(), Code::kNotFound);
}

}  // namespace
}  // namespace kintsugi::tracing
