// The call by which operators and other daemons have a process record (Method::kTrace).
#include "tracing/agent/trace_service.h"

#include <algorithm>
#include <fstream>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "common/proto/trace.pb.h"
#include "common/runtime/production/production_runtime.h"
#include "tests/trace_agent/agent_rig.h"

namespace kintsugi::tracing {
namespace {

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
  const uint64_t process = answer.process();
  EXPECT_NE(process, 0) << "two processes may have the same pid, and so the same path of a trace";
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
  EXPECT_EQ(answer.process(), process);
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
