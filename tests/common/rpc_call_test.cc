#include "common/rpc/follower.h"
#include "tests/common/rpc_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::rpc {
namespace {

TEST(RpcCall, ReturnsWhatTheHandlerAnswers) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> { CO_ASSERT_OK(co_await rig.ping_is_echoed()); });
}

TEST(RpcCall, CarriesAnErrorWithItsCodeAndSentence) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    proto::Empty request, response;
    const Status answer = co_await rig.client.call(Context{}, rig.at, Method::kStat, request, response);
    EXPECT_EQ(answer, (Status{Code::kNotFound, "no such file"}));
  });
}

TEST(RpcCall, RefusesAnUnknownMethodAndKeepsTheConnection) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    proto::Empty request, response;
    std::vector<int> unknown = {13, 100, 127, 128, 60000};
    for (int number : unknown) {
      const Status answer =
          co_await rig.client.call(Context{}, rig.at, static_cast<Method>(number), request, response);
      EXPECT_EQ(answer.code(), Code::kNotSupported) << answer;
    }
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
  });
}

TEST(RpcCall, RefusesARequestThatDoesNotParse) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    auto answer = co_await rig.client.call_raw(Context{}, rig.at, Method::kPing, "\xff\xff\xff");
    CO_ASSERT_TRUE(!answer);
    EXPECT_EQ(answer.error().code(), Code::kInvalidArgument);
  });
}

TEST(RpcCall, HandsDeadlineAndTraceToTheHandler) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    Context context;
    TimePoint now = rig.client_runtime.clock.now();
    context.deadline = now + 20s;
    context.trace = {11, 22, 33};
    CO_ASSERT_TRUE(co_await rig.ping("x", context));
    EXPECT_EQ(rig.last_context.trace.trace_id, 11u);
    EXPECT_EQ(rig.last_context.trace.span_id, 22u);
    EXPECT_EQ(rig.last_context.trace.path, 33u);
    EXPECT_GT(rig.last_context.deadline, now + 19s);
    EXPECT_LT(rig.last_context.deadline, now + 25s);
  });
}

TEST(RpcCall, CarriesMessagesUpToTheLimitAndNoLarger) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    std::string largest(kMaxHeaderBytes - 4, 'a');  // the field's tag and length take four bytes
    auto answer = co_await rig.ping(largest);
    CO_ASSERT_TRUE(answer);
    EXPECT_EQ(answer->message(), largest);
    auto refused = co_await rig.ping(largest + "a");
    CO_ASSERT_TRUE(!refused);
    EXPECT_EQ(refused.error().code(), Code::kLimitExceeded);
    proto::Empty request;
    proto::ErrorDetail response;
    const Status too_large = co_await rig.client.call(Context{}, rig.at, Method::kFsck, request, response);
    EXPECT_EQ(too_large.code(), Code::kLimitExceeded);
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
  });
}

asio::awaitable<void> ping_number(Rig& rig, size_t number, size_t& right) {
  // Sizes from nothing to some KiB, so that frames lie across buffer ends in every way.
  std::string message = std::to_string(number) + std::string(number * 37 % 3000, 'x');
  auto answer = co_await rig.ping(message);
  if (answer && answer->message() == message) ++right;
}

TEST(RpcCall, AnswersTenThousandAtOnceOverOneConnection) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    size_t right = 0;
    runtime::TaskGroup group(rig.client_runtime);
    for (size_t i = 0; i < 10'000; ++i)
      group.spawn(ping_number(rig, i, right));
    co_await group.join();
    EXPECT_EQ(right, 10'000u);
  });
}

TEST(RpcCall, FirstCallsToOnePeerShareOneDial) {
  run_simulated([](Rig& rig, simulation::Simulation& simulation) -> asio::awaitable<void> {
    size_t right = 0;
    runtime::TaskGroup group(rig.client_runtime);
    for (size_t i = 0; i < 100; ++i)
      group.spawn(ping_number(rig, i, right));
    co_await group.join();
    EXPECT_EQ(right, 100u);
    EXPECT_EQ(simulation.network().connections("10.0.0.2"), 1u);
  });
}

asio::awaitable<void> collect_error(Rig& rig, runtime::Endpoint to, Context context,
                                    std::vector<Status>& errors) {
  proto::Empty request, response;
  errors.push_back(co_await rig.client.call(context, to, Method::kList, request, response));
}

TEST(RpcCall, AFailedDialFailsAllWhoWaitAndNamesThePeer) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    std::vector<Status> errors;
    runtime::Endpoint nobody{"127.0.0.1", 1};
    runtime::TaskGroup group(rig.client_runtime);
    for (int i = 0; i < 5; ++i)
      group.spawn(collect_error(rig, nobody, Context{}, errors));
    co_await group.join();
    CO_ASSERT_TRUE(errors.size() == 5);
    for (const Status& error : errors) {
      EXPECT_EQ(error.code(), Code::kUnavailable) << error;
      EXPECT_NE(error.message().find("127.0.0.1:1"), std::string::npos) << error;
    }
  });
}

TEST(RpcCall, FailsAtItsDeadlineAndDropsTheLateAnswer) {
  run_simulated([](Rig& rig, simulation::Simulation&) -> asio::awaitable<void> {
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
    runtime::Clock& clock = rig.client_runtime.clock;
    TimePoint begin = clock.now();
    std::vector<Status> errors;
    Context context;
    context.deadline = begin + 250ms;
    co_await collect_error(rig, rig.at, context, errors);
    EXPECT_EQ(errors[0].code(), Code::kDeadlineExceeded) << errors[0];
    EXPECT_GE(clock.now() - begin, 250ms);
    EXPECT_LE(clock.now() - begin, 252ms);
    rig.release();  // now the answer comes, to nobody
    for (int i = 0; i < 3; ++i)
      CO_ASSERT_OK(co_await rig.ping_is_echoed());
    EXPECT_EQ(rig.calls_waiting, 0u);
  });
}

/// Two want every call followed.
class TwoFollow final : public Follower {
 public:
  TwoFollow() { set_follower(this); }
  ~TwoFollow() override { set_follower(nullptr); }
  uint32_t follows(const CallName&) override { return 0; }
  uint32_t follows_own_work() override { return 0; }
  std::vector<Announcement> announcements(const std::string&, const CallName&, uint32_t) override {
    return {{.request = "", .owner = 1}, {.request = "", .owner = 2}};
  }
  void announced(const std::string&, uint64_t owner, const Status& answer) override {
    answers.emplace_back(owner, answer.code());
  }
  std::vector<std::pair<uint64_t, Code>> answers;
};

TEST(RpcCall, IsAnnouncedForNobodyMoreWhenItsTimeIsOver) {
  run_simulated([](Rig& rig, simulation::Simulation&) -> asio::awaitable<void> {
    Server traced(rig.server_runtime, test_secret(), nullptr);
    for (const Method method : {Method::kTrace, Method::kPing})
      traced.handle(method, [&rig](Context, const proto::Empty&, proto::Empty&) -> asio::awaitable<Status> {
        while (!rig.is_released)
          co_await rig.released.wait();
        co_return Status{};
      });
    CO_ASSERT_OK(traced.start({rig.at.host, 0}));
    const auto call = [&](Duration limit) {
      static const proto::Empty request;
      static proto::Empty response;
      Context context;
      context.followed = 3;
      context.deadline = rig.client_runtime.clock.now() + limit;
      return rig.client.call(context, traced.local_endpoint(), Method::kPing, request, response);
    };
    TwoFollow both;
    EXPECT_EQ((co_await call(250ms)).code(), Code::kDeadlineExceeded);
    using Answers = std::vector<std::pair<uint64_t, Code>>;
    EXPECT_EQ(both.answers, (Answers{{1, Code::kDeadlineExceeded}})) << "the second one was refused nothing";
    rig.release();
    CO_ASSERT_OK(co_await call(10s));
    EXPECT_EQ(both.answers, (Answers{{1, Code::kDeadlineExceeded}, {1, Code::kOk}, {2, Code::kOk}}));
    co_await traced.stop();
  });
}

asio::awaitable<void> stop_traced(Server& server) {
  co_await server.stop();
}

TEST(RpcCall, IsAnnouncedForNobodyMoreOverAConnectionThatHasBroken) {
  run_simulated([](Rig& rig, simulation::Simulation&) -> asio::awaitable<void> {
    Server traced(rig.server_runtime, test_secret(), nullptr);
    traced.handle(Method::kTrace,
                  [&rig](Context, const proto::Empty&, proto::Empty&) -> asio::awaitable<Status> {
                    while (!rig.is_released)
                      co_await rig.released.wait();
                    co_return Status{};
                  });
    CO_ASSERT_OK(traced.start({rig.at.host, 0}));
    TwoFollow both;
    Context context;
    context.followed = 3;
    std::vector<Status> errors;
    runtime::TaskGroup group(rig.client_runtime);
    group.spawn(collect_error(rig, traced.local_endpoint(), context, errors));
    (void)co_await group.sleep_for(100ms);
    group.spawn(stop_traced(traced));
    (void)co_await group.sleep_for(1s);
    CO_ASSERT_TRUE(errors.size() == 1);
    EXPECT_EQ(errors[0].code(), Code::kUnavailable) << errors[0];
    using Answers = std::vector<std::pair<uint64_t, Code>>;
    EXPECT_EQ(both.answers, (Answers{{1, Code::kUnavailable}})) << "for the second one nobody was asked";
    rig.release();
    co_await group.join();
  });
}

TEST(RpcCall, ManyDeadlinesExpireEachAtItsTime) {
  run_simulated([](Rig& rig, simulation::Simulation&) -> asio::awaitable<void> {
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
    TimePoint begin = rig.client_runtime.clock.now();
    std::vector<Status> errors;
    runtime::TaskGroup group(rig.client_runtime);
    for (int i = 0; i < 100; ++i) {
      Context context;
      context.deadline = begin + 10ms * (100 - i);
      group.spawn(collect_error(rig, rig.at, context, errors));
    }
    (void)co_await group.sleep_until(begin + 505ms);
    EXPECT_EQ(errors.size(), 50u);
    co_await group.join();
    EXPECT_LE(rig.client_runtime.clock.now() - begin, 1002ms);
    for (const Status& error : errors)
      EXPECT_EQ(error.code(), Code::kDeadlineExceeded);
  });
}

TEST(RpcCall, APassedDeadlineFailsWithoutCalling) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    Context context;
    context.deadline = rig.client_runtime.clock.now() - 1s;
    auto answer = co_await rig.ping("x", context);
    CO_ASSERT_TRUE(!answer);
    EXPECT_EQ(answer.error().code(), Code::kDeadlineExceeded);
  });
}

TEST(RpcCall, CallsAfterAPartitionUseANewConnection) {
  run_simulated([](Rig& rig, simulation::Simulation& simulation) -> asio::awaitable<void> {
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
    simulation.network().isolate("10.0.0.1");
    Context context;
    context.deadline = rig.client_runtime.clock.now() + 2s;
    auto lost = co_await rig.ping("x", context);
    CO_ASSERT_TRUE(!lost);
    EXPECT_EQ(lost.error().code(), Code::kDeadlineExceeded);
    context.deadline = rig.client_runtime.clock.now() + 10s;
    auto unreachable = co_await rig.ping("x", context);
    CO_ASSERT_TRUE(!unreachable);
    EXPECT_EQ(unreachable.error().code(), Code::kUnavailable) << unreachable.error();
    simulation.network().heal();
    simulation.network().rejoin("10.0.0.1");
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
  });
}

TEST(RpcCall, ABrokenConnectionFailsItsCallsAndTheNextCallDialsAnew) {
  run_simulated([](Rig& rig, simulation::Simulation& simulation) -> asio::awaitable<void> {
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
    std::vector<Status> errors;
    runtime::TaskGroup group(rig.client_runtime);
    for (int i = 0; i < 10; ++i)
      group.spawn(collect_error(rig, rig.at, Context{}, errors));
    (void)co_await group.sleep_for(100ms);
    EXPECT_EQ(rig.calls_waiting, 10u);
    simulation.network().drop_connections("10.0.0.1");
    co_await group.join();
    CO_ASSERT_TRUE(errors.size() == 10);
    for (const Status& error : errors)
      EXPECT_EQ(error.code(), Code::kUnavailable) << error;
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
  });
}

TEST(RpcCall, AServerAtItsCallLimitStopsReadingAndLosesNothing) {
  ServerLimits limits;
  limits.max_calls_per_connection = 4;
  run_simulated(
      [](Rig& rig, simulation::Simulation&) -> asio::awaitable<void> {
        std::vector<Status> errors;
        runtime::TaskGroup group(rig.client_runtime);
        for (int i = 0; i < 20; ++i)
          group.spawn(collect_error(rig, rig.at, Context{}, errors));
        (void)co_await group.sleep_for(1s);
        EXPECT_EQ(rig.calls_waiting, 4u);
        rig.release();
        co_await group.join();
        EXPECT_EQ(errors.size(), 20u);
        for (const Status& error : errors)
          KINTSUGI_EXPECT_OK(error);
      },
      limits);
}

TEST(RpcCall, AStoppedClientFailsItsCalls) {
  run_simulated([](Rig& rig, simulation::Simulation&) -> asio::awaitable<void> {
    std::vector<Status> errors;
    runtime::TaskGroup group(rig.client_runtime);
    group.spawn(collect_error(rig, rig.at, Context{}, errors));
    (void)co_await group.sleep_for(100ms);
    co_await rig.client.stop();
    co_await group.join();
    CO_ASSERT_TRUE(errors.size() == 1);
    EXPECT_EQ(errors[0].code(), Code::kCancelled) << errors[0];
    auto after = co_await rig.ping("x");
    CO_ASSERT_TRUE(!after);
    EXPECT_EQ(after.error().code(), Code::kCancelled);
  });
}

asio::awaitable<void> stop_server(Rig& rig, bool& stopped) {
  co_await rig.server.stop();
  stopped = true;
}

TEST(RpcCall, AStoppingServerWaitsForItsHandlersAndFailsTheirCallers) {
  run_simulated([](Rig& rig, simulation::Simulation&) -> asio::awaitable<void> {
    std::vector<Status> errors;
    bool stopped = false;
    runtime::TaskGroup group(rig.client_runtime);
    for (int i = 0; i < 3; ++i)
      group.spawn(collect_error(rig, rig.at, Context{}, errors));
    (void)co_await group.sleep_for(100ms);
    group.spawn(stop_server(rig, stopped));
    (void)co_await group.sleep_for(1s);
    EXPECT_FALSE(stopped);
    EXPECT_EQ(errors.size(), 3u);
    for (const Status& error : errors)
      EXPECT_EQ(error.code(), Code::kUnavailable) << error;
    rig.release();
    co_await group.join();
    EXPECT_TRUE(stopped);
    auto after = co_await rig.ping("x");
    CO_ASSERT_TRUE(!after);
    EXPECT_EQ(after.error().code(), Code::kUnavailable) << after.error();
  });
}

TEST(RpcCall, ConnectionsAboveTheLimitAreRefusedAndOthersServed) {
  ServerLimits limits;
  limits.max_connections = 1;
  LogCapture log;
  run_on_loopback(
      [](Rig& rig) -> asio::awaitable<void> {
        CO_ASSERT_OK(co_await rig.ping_is_echoed());
        Client second(rig.client_runtime, test_secret());
        proto::ErrorDetail request = text("x"), response;
        for (int i = 0; i < 3; ++i) {
          const Status refused = co_await second.call(Context{}, rig.at, Method::kPing, request, response);
          EXPECT_EQ(refused.code(), Code::kUnavailable);
        }
        co_await second.stop();
        CO_ASSERT_OK(co_await rig.ping_is_echoed());
      },
      limits);
  EXPECT_EQ(log.count("refusing connections"), 1u);
}

TEST(RpcCall, TellsWhichConnectionACallCameOverAndWhenItHasEnded) {
  simulation::Simulation simulation(1);
  simulation::SimNode server_node(simulation, "10.0.0.1"), client_node(simulation, "10.0.0.2");
  Rig rig(server_node.runtime(), client_node.runtime());
  std::vector<uint64_t> ended;
  rig.server.on_connection_ended([&](uint64_t connection) { ended.push_back(connection); });
  rig.start("10.0.0.1", 7000);
  KINTSUGI_ASSERT_OK(simulation.run(rig.ping_is_echoed()));
  const uint64_t first = rig.last_context.connection;
  EXPECT_NE(first, 0u);
  KINTSUGI_ASSERT_OK(simulation.run(rig.ping_is_echoed()));
  EXPECT_EQ(rig.last_context.connection, first);
  EXPECT_TRUE(ended.empty());
  simulation.network().drop_connections("10.0.0.2");
  simulation.run_for(100ms);
  EXPECT_EQ(ended, std::vector<uint64_t>{first});
  KINTSUGI_ASSERT_OK(simulation.run(rig.ping_is_echoed()));
  EXPECT_NE(rig.last_context.connection, first);
  simulation.run(rig.stop());
  EXPECT_EQ(ended.size(), 1u) << "a server that stops has nothing to tell";
}

TEST(RpcCall, AClientThatStopsDoesNotWaitForADialThatNobodyAnswers) {
  simulation::Simulation simulation(1);
  simulation::SimNode server_node(simulation, "10.0.0.1"), client_node(simulation, "10.0.0.2");
  Rig rig(server_node.runtime(), client_node.runtime());
  rig.start("10.0.0.1", 7000);
  simulation.network().cut("10.0.0.1", "10.0.0.2");
  std::optional<Status> ended;
  auto ping = [](Rig& from, std::optional<Status>& outcome) -> asio::awaitable<void> {
    outcome = co_await from.ping_is_echoed();
  };
  asio::co_spawn(simulation.executor(), ping(rig, ended), asio::detached);
  simulation.run_for(100ms);
  EXPECT_FALSE(ended);
  const TimePoint began = simulation.now();
  simulation.run(rig.client.stop());
  EXPECT_LT(simulation.now() - began, 10ms);
  simulation.run_for(1ms);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->code(), Code::kCancelled) << *ended;
  simulation.run(rig.stop());
}

}  // namespace
}  // namespace kintsugi::rpc
