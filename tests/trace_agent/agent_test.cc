// The agent of a process, asked as an operator asks it.
#include "tracing/agent/agent.h"

#include <thread>

#include <sys/resource.h>

#include "common/proto/trace.pb.h"
#include "common/runtime/production/production_runtime.h"
#include "tests/common/runtime_virtual_loop.h"
#include "tests/trace_agent/rig.h"
#include "tracing/agent/trace_service.h"

namespace kintsugi::tracing {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_EQ(agent.read(0, 100).error().code(), Code::kConflict);
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

TEST_F(AgentOfAProcess, BelongsToItsOwnerAndEndsForNobodyElse) {
  const auto of = [&](uint64_t owner) {
    return agent.attach({.session = {directory_.path(), "all", Mode::kLinear, 4 << 20},
                         .limit = std::chrono::seconds(60),
                         .follow = FollowTerms{.owner = owner, .hops = 1}});
  };
  KINTSUGI_ASSERT_OK(of(7));
  KINTSUGI_EXPECT_OK(of(7));
  EXPECT_EQ(of(8).code(), Code::kAlreadyExists);
  EXPECT_EQ(agent.detach(8).code(), Code::kNotFound);
  EXPECT_EQ(rpc::follower(), &Following::of_process());
  KINTSUGI_EXPECT_OK(agent.detach(7));
  EXPECT_EQ(wait_for(Phase::kEnded).phase, Phase::kEnded);
  EXPECT_EQ(rpc::follower(), nullptr);
  EXPECT_EQ(of(7).code(), Code::kConflict) << "a late call begins nothing anew";
  KINTSUGI_EXPECT_OK(of(8));
}

struct FollowedCalls : ::testing::Test {
  FollowedCalls() { begin({.owner = 7, .hops = 2, .method = rpc::Method::kReadChunk, .bytes = 4 << 20}); }
  ~FollowedCalls() override { following.end(); }
  void begin(FollowTerms terms) {
    terms.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    following.begin(terms);
  }
  bool follows(uint64_t call, rpc::Method method) { return following.follows({kConnection, call, method}); }
  std::string announcement(const std::string& peer) {
    return following.announcement(peer, {kConnection, 3, rpc::Method::kPartialSum}).request;
  }
  static constexpr uint64_t kConnection = 0x50;
  Following& following = Following::of_process();
};

TEST_F(FollowedCalls, AreThoseOfTheMethodAndThoseThatWereAnnounced) {
  EXPECT_TRUE(follows(1, rpc::Method::kReadChunk));
  EXPECT_FALSE(follows(2, rpc::Method::kWriteChunk));
  KINTSUGI_EXPECT_OK(following.expect(kConnection, 2));
  EXPECT_FALSE(follows(3, rpc::Method::kWriteChunk));
  EXPECT_TRUE(follows(2, rpc::Method::kWriteChunk));
  EXPECT_FALSE(follows(2, rpc::Method::kWriteChunk)) << "it comes once";
  EXPECT_EQ(following.requests(), 2);
  for (uint64_t call = 0; call < Following::kMostExpected; ++call)
    KINTSUGI_ASSERT_OK(following.expect(kConnection, call));
  EXPECT_EQ(following.expect(kConnection, Following::kMostExpected).code(), Code::kLimitExceeded);
}

TEST_F(FollowedCalls, OfEveryMethodAreAllButThoseOfWhoTraces) {
  begin({.owner = 7, .hops = 2, .everything = true});
  EXPECT_TRUE(follows(1, rpc::Method::kWriteChunk));
  EXPECT_FALSE(follows(2, rpc::Method::kTrace));
}

TEST_F(FollowedCalls, AreAnnouncedToWhoDidNotRefuse) {
  proto::TraceRequest request;
  ASSERT_TRUE(request.ParseFromString(announcement("127.0.0.1:1")));
  EXPECT_EQ(request.action(), proto::TraceRequest::FOLLOW);
  EXPECT_EQ(request.owner(), 7);
  EXPECT_EQ(request.hops(), 1);
  EXPECT_EQ(request.connection(), kConnection);
  EXPECT_EQ(request.call(), 3);
  EXPECT_GT(request.limit_ms(), 0);
  EXPECT_LE(request.limit_ms(), 10'001);
  following.announced("127.0.0.1:1", 7, {});
  EXPECT_NE(announcement("127.0.0.1:1"), "") << "it has to know each call";
  following.announced("127.0.0.1:1", 7, {Code::kUnavailable, "it died"});
  EXPECT_EQ(announcement("127.0.0.1:1"), "");
  EXPECT_NE(announcement("127.0.0.1:2"), "");
  const auto peers = following.peers();
  ASSERT_EQ(peers.size(), 2) << "also the one that has not answered";
  EXPECT_EQ(peers[0].second.message(), "it died");
}

TEST_F(FollowedCalls, OfANewRecordingAreNotHeldToLateAnswersOfAnEarlierOne) {
  ASSERT_NE(announcement("127.0.0.1:1"), "");
  begin({.owner = 8, .hops = 2, .everything = true});
  ASSERT_NE(announcement("127.0.0.1:1"), "");
  following.announced("127.0.0.1:1", 7, {Code::kConflict, "its recording has ended"});
  following.announced("127.0.0.1:2", 7, {});
  EXPECT_NE(announcement("127.0.0.1:1"), "") << "it refused somebody else";
  ASSERT_EQ(following.peers().size(), 1) << "and nobody asked 127.0.0.1:2 for this one";
}

TEST_F(FollowedCalls, OfTheProcessItselfAreCountedWhileItIsRecorded) {
  EXPECT_FALSE(rpc::own_work({}).followed) << "requests of a method are followed, and no other ones";
  begin({.owner = 8, .hops = 2, .own_work = true});
  EXPECT_TRUE(rpc::own_work({.connection = 5}).followed);
  EXPECT_EQ(rpc::own_work({.connection = 5}).connection, 5);
  EXPECT_EQ(following.requests(), 2);
  EXPECT_FALSE(follows(1, rpc::Method::kReadChunk)) << "it came from outside";
  following.end();
  EXPECT_FALSE(rpc::own_work({}).followed);
}

TEST_F(FollowedCalls, GoNoFurtherThanTheirHopsAndTheRecording) {
  begin({.owner = 7, .hops = 0, .everything = true});
  EXPECT_EQ(announcement("127.0.0.1:1"), "");
  EXPECT_EQ(following.peers().at(0).second.code(), Code::kLimitExceeded);
  begin({.owner = 7, .hops = 1, .everything = true});
  EXPECT_TRUE(following.peers().empty());
  following.end();
  EXPECT_FALSE(follows(1, rpc::Method::kReadChunk));
  EXPECT_EQ(announcement("127.0.0.1:1"), "");
  EXPECT_EQ(following.expect(kConnection, 1).code(), Code::kConflict);
}

struct TraceCalls : AgentOfAProcess {
  TraceCalls() {
    server.handle(rpc::Method::kStat,
                  [](Context, const proto::TraceRequest&, proto::TraceResponse&) -> asio::awaitable<Status> {
                    co_return Status{};
                  });
  }
  Status call(const proto::TraceRequest& request) {
    Status status;
    answer.Clear();
    loop.run([](TraceService& service, const proto::TraceRequest& wanted, proto::TraceResponse& into,
                Status& result) -> asio::awaitable<void> {
      result = co_await service(Context(), wanted, into);
    }(service, request, answer, status));
    return status;
  }
  runtime::testing::VirtualLoop loop;
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
