// A change that comes again is never carried out after its sender was told that it was refused.
#include <deque>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "common/proto/meta.pb.h"
#include "common/rpc/repeats.h"
#include "tests/common/rpc_rig.h"

namespace kintsugi::rpc {
namespace {

/// A server whose handler of kRename answers what it is told to, one call at a time, and a client with two connections.
struct RepeatsRig {
  RepeatsRig()
      : simulation(simulation::Simulation::seed_from_environment(1)),
        server_node(simulation, "10.0.0.1"),
        client_node(simulation, "10.0.0.2"),
        server(server_node.runtime(), test_secret(), nullptr),
        first(client_node.runtime(), test_secret()),
        second(client_node.runtime(), test_secret()),
        answered(server_node.runtime()) {
    for (const Method method : {Method::kRename, Method::kRemove})
      server.handle(method,
                    [this](Context, const proto::RenameRequest&, proto::Empty&) -> asio::awaitable<Status> {
                      ++begun;
                      while (answers.empty())
                        co_await answered.wait();
                      const Status answer = answers.front();
                      answers.pop_front();
                      co_return answer;
                    });
    KINTSUGI_EXPECT_OK(server.start(at));
  }
  ~RepeatsRig() {
    answers.resize(9);
    answered.notify_all();
    simulation.run(first.stop());
    simulation.run(second.stop());
    simulation.run(server.stop());
  }

  static proto::RenameRequest change(uint64_t number, const std::string& to = "/b") {
    proto::RenameRequest request;
    request.set_from("/a");
    request.set_to(to);
    request.mutable_change()->set_session(7);
    request.mutable_change()->set_number(number);
    return request;
  }
  void answer(Status status) {
    answers.push_back(std::move(status));
    answered.notify_one();
    simulation.run_for(1s);
  }
  /// Sends the request, and lets a second pass.
  void send(Client& over, const proto::RenameRequest& request, std::optional<Status>& ended,
            Duration limit = 20s, Method method = Method::kRename) {
    const auto run = [](RepeatsRig& rig, Client& over, proto::RenameRequest request,
                        std::optional<Status>& ended, Duration limit,
                        Method method) -> asio::awaitable<void> {
      Context context;
      context.deadline = rig.simulation.now() + limit;
      proto::Empty response;
      ended = co_await over.call(context, rig.at, method, request, response);
    };
    asio::co_spawn(client_node.runtime().executor, run(*this, over, request, ended, limit, method),
                   asio::detached);
    simulation.run_for(1s);
  }

  simulation::Simulation simulation;
  simulation::SimNode server_node, client_node;
  const runtime::Endpoint at{"10.0.0.1", 7000};
  Server server;
  Client first, second;
  runtime::Event answered;
  std::deque<Status> answers;
  int begun = 0;
};

const Status kRefused{Code::kNotFound, "/a does not exist"};

TEST(Repeats, OneThatComesWhileItsChangeIsUnderWayBeginsAfterIt) {
  RepeatsRig rig;
  std::optional<Status> before, again, other;
  rig.send(rig.first, RepeatsRig::change(1), before);
  rig.send(rig.second, RepeatsRig::change(1), again);
  EXPECT_EQ(rig.begun, 1);
  rig.send(rig.second, RepeatsRig::change(2), other);
  EXPECT_EQ(rig.begun, 2) << "another change waits for nobody";
  rig.answer({});
  ASSERT_TRUE(before);
  KINTSUGI_EXPECT_OK(*before);
  EXPECT_EQ(rig.begun, 3) << "whether it was carried out is for the handler to know";
  rig.answer({});
  rig.answer({});
  ASSERT_TRUE(again && other);
  KINTSUGI_EXPECT_OK(*again);
}

TEST(Repeats, WhatWasRefusedIsRefusedAgainWhateverHasHappenedSince) {
  RepeatsRig rig;
  std::optional<Status> before, waiting, late;
  rig.send(rig.first, RepeatsRig::change(1), before);
  rig.send(rig.second, RepeatsRig::change(1), waiting);
  rig.answer(kRefused);
  rig.send(rig.second, RepeatsRig::change(1), late);
  ASSERT_TRUE(before && waiting && late);
  EXPECT_EQ(*before, kRefused);
  EXPECT_EQ(*waiting, kRefused);
  EXPECT_EQ(*late, kRefused);
  EXPECT_EQ(rig.begun, 1);
}

TEST(Repeats, AnotherRequestWithTheNumberOfOneThatWasRefusedIsCarriedOut) {
  RepeatsRig rig;
  std::optional<Status> before, other;
  rig.send(rig.first, RepeatsRig::change(1), before);
  rig.answer(kRefused);
  rig.send(rig.first, RepeatsRig::change(1, "/c"), other);
  rig.answer({});
  ASSERT_TRUE(other);
  KINTSUGI_EXPECT_OK(*other);
}

TEST(Repeats, WhatNobodyDecidedIsTriedAgain) {
  RepeatsRig rig;
  for (const Code code : {Code::kUnavailable, Code::kDeadlineExceeded, Code::kCancelled}) {
    std::optional<Status> ended;
    rig.send(rig.first, RepeatsRig::change(1), ended);
    rig.answer({code, "not now"});
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->code(), code);
  }
  EXPECT_EQ(rig.begun, 3);
}

TEST(Repeats, NobodyWaitsForOneUnderWayAfterHisDeadline) {
  RepeatsRig rig;
  std::optional<Status> before, again, once_more;
  rig.send(rig.first, RepeatsRig::change(1), before, 60s);
  rig.send(rig.second, RepeatsRig::change(1), again, 3s);
  rig.simulation.run_for(5s);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->ok());
  rig.answer(kRefused);
  rig.send(rig.second, RepeatsRig::change(1), once_more);
  ASSERT_TRUE(once_more);
  EXPECT_EQ(*once_more, kRefused);
}

TEST(Repeats, AnotherMethodWithTheSameNumberAndBytesIsAnotherCall) {
  RepeatsRig rig;
  std::optional<Status> before, other;
  rig.send(rig.first, RepeatsRig::change(1), before);
  rig.answer(kRefused);
  rig.answers.emplace_back();
  rig.send(rig.first, RepeatsRig::change(1), other, 20s, Method::kRemove);
  ASSERT_TRUE(other);
  KINTSUGI_EXPECT_OK(*other);
}

TEST(Repeats, OneWhoseConnectionBrokeWhileItWaitedTakesNoTurn) {
  RepeatsRig rig;
  std::optional<Status> before, orphan, again;
  rig.send(rig.first, RepeatsRig::change(1), before);
  auto gone = std::make_unique<Client>(rig.client_node.runtime(), test_secret());
  rig.send(*gone, RepeatsRig::change(1), orphan);
  rig.simulation.run(gone->stop());
  rig.simulation.run_for(1s);
  rig.send(rig.second, RepeatsRig::change(1), again);
  rig.answer({Code::kUnavailable, "in use"});
  EXPECT_EQ(rig.begun, 2) << "the one that somebody waits for";
  rig.answer({});
  ASSERT_TRUE(again);
  KINTSUGI_EXPECT_OK(*again);
}

TEST(Repeats, ALongRefusalIsRememberedShortened) {
  RepeatsRig rig;
  std::optional<Status> before, again;
  rig.send(rig.first, RepeatsRig::change(1), before);
  rig.answer({Code::kNameTooLong, std::string(100'000, 'x')});
  rig.send(rig.second, RepeatsRig::change(1), again);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->code(), Code::kNameTooLong);
  EXPECT_LE(again->message().size(), 512u);
}

TEST(Repeats, RequestsWithoutANumberAreNoRepeats) {
  RepeatsRig rig;
  proto::RenameRequest request = RepeatsRig::change(1);
  request.clear_change();
  std::optional<Status> before, again;
  rig.send(rig.first, request, before);
  rig.send(rig.second, request, again);
  EXPECT_EQ(rig.begun, 2);
  rig.answer(kRefused);
  rig.answer({});
  ASSERT_TRUE(before && again);
  EXPECT_NE(before->ok(), again->ok());
}

}  // namespace
}  // namespace kintsugi::rpc
