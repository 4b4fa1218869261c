// What one peer may have of a server: a program that may connect, and asks for as much as it can, takes a bounded part of the
// server's memory and time, and the others are served as if it were not there.
#include <algorithm>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <malloc.h>

#include "common/proto/token.pb.h"
#include "common/rpc/handshake.h"
#include "common/rpc/token.h"
#include "tests/common/rpc_rig.h"

namespace kintsugi::rpc {
namespace {

constexpr size_t kMostBytesOfAPeer = 64 << 20;
constexpr size_t kAnswerBytes = 256 << 10;

std::string request_frame(Method method, uint64_t id, std::string_view message = {}) {
  const FrameHeader header{.method = method, .flags = kFlagRequest, .request_id = id};
  const auto fixed = encode_frame_header(header, std::as_bytes(std::span(message)));
  std::string frame(reinterpret_cast<const char*>(fixed.data()), fixed.size());
  frame += message;
  return frame;
}

std::string many_requests(Method method, size_t count) {
  std::string frames;
  for (size_t i = 0; i < count; ++i)
    frames += request_frame(method, i + 1);
  return frames;
}

/// Bytes that this process has allocated.
size_t allocated() {
  const struct mallinfo2 now = ::mallinfo2();
  return now.uordblks + now.hblkhd;
}

/// A token of this name, which makes whoever has it another peer than the rig's client.
Secret token_named(const std::string& name, uint64_t id, const runtime::Runtime& runtime) {
  proto::TokenClaims claims;
  claims.set_id(id);
  claims.set_name(name);
  claims.set_role(proto::TokenClaims::ADMIN);
  const auto now = runtime.clock.wall_now().time_since_epoch();
  claims.set_issued_ns(now.count());
  claims.set_expires_ns((now + 1h).count());
  return *parse_token(token_text(test_secret(), claims.SerializeAsString()));
}

/// Connections that send what they are given and never read.
class Hog {
 public:
  Hog(Rig& rig, const Secret& credential)
      : rig_(rig), runtime_(rig.client_runtime), credential_(credential), tasks_(runtime_) {}

  /// Another connection, over which `bytes` are on their way when this returns.
  asio::awaitable<Status> send(const std::string& bytes) {
    const TimePoint deadline = runtime_.clock.now() + 10s;
    auto dialled = co_await runtime_.network.dial(rig_.at, deadline);
    if (!dialled) co_return dialled.error();
    auto connection = std::make_shared<BufferedConnection>(std::move(*dialled), runtime_.executor, registry_);
    KINTSUGI_CO_TRY(co_await prove_as_client(runtime_, credential_, connection, deadline));
    connections_.push_back(connection);
    tasks_.spawn(write(connection, bytes));
    co_return Status{};
  }

  asio::awaitable<void> stop() {
    registry_->close_all();
    co_await tasks_.join();
  }
  size_t open() const {
    return static_cast<size_t>(std::ranges::count_if(connections_, [](auto& c) { return c->is_open(); }));
  }

 private:
  static asio::awaitable<void> write(std::shared_ptr<BufferedConnection> connection, std::string bytes) {
    const asio::const_buffer buffer(bytes.data(), bytes.size());
    (void)co_await connection->write(std::span(&buffer, 1));
  }

  Rig& rig_;
  const runtime::Runtime& runtime_;
  const Secret credential_;
  std::shared_ptr<ConnectionRegistry> registry_ = std::make_shared<ConnectionRegistry>();
  std::vector<std::shared_ptr<BufferedConnection>> connections_;
  runtime::TaskGroup tasks_;
};

/// A rig that also answers kDiskFree with kAnswerBytes, and counts these.
struct HogRig : Rig {
  HogRig(runtime::Runtime server_runtime, runtime::Runtime client_runtime, ServerLimits limits = {})
      : Rig(server_runtime, client_runtime, limits) {
    server.refuse_tokens({});
    server.handle(
        Method::kDiskFree,
        [this](Context, const proto::Empty&, proto::ErrorDetail& response) -> asio::awaitable<Status> {
          ++answered;
          response = text(std::string(kAnswerBytes, 'x'));
          co_return Status{};
        });
    server.handle(
        Method::kKeepSession,
        [](Context, const proto::Empty&, proto::Empty&) -> asio::awaitable<Status> { co_return Status{}; });
    server.handle(Method::kOpenRead,
                  [this](Context, const proto::ErrorDetail& request,
                         proto::ErrorDetail& response) -> asio::awaitable<Status> {
                    if (request.message().empty()) response = text(std::string(kMaxHeaderBytes - 100, 'x'));
                    ++calls_waiting;
                    while (!request.message().empty() && !is_released)
                      co_await released.wait();
                    --calls_waiting;
                    co_return Status{};
                  });
    server.handle(Method::kAwaitRecalls,
                  [this](Context, const proto::ErrorDetail& request,
                         proto::ErrorDetail& response) -> asio::awaitable<Status> {
                    if (request.message().empty()) response = text(std::string(kMaxHeaderBytes - 100, 'x'));
                    ++calls_waiting;
                    while (!request.message().empty() && !is_released)
                      co_await released.wait();
                    --calls_waiting;
                    co_return Status{};
                  });
  }
  size_t answered = 0;
};

template <class Body>
void run_hogs(Body body, ServerLimits limits = {}) {
  runtime::ProductionRuntime production;
  auto task = [&]() -> asio::awaitable<void> {
    HogRig rig(production.runtime(), production.runtime(), limits);
    rig.start();
    co_await body(rig);
    co_await rig.stop();
  };
  runtime::run_on(production, task());
}

TEST(RpcPeers, AnswersThatNobodyReadsTakeBoundedMemoryAndOthersAreServed) {
  LogCapture log;
  run_hogs([](HogRig& rig) -> asio::awaitable<void> {
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
    Hog hog(rig, token_named("greedy", 1, rig.server_runtime));
    const std::string requests = many_requests(Method::kDiskFree, 1'000);
    const size_t before = allocated();
    size_t most = 0, others = 0;
    constexpr size_t kConnections = 20;
    for (size_t i = 0; i < kConnections; ++i)
      CO_ASSERT_OK(co_await hog.send(requests));
    for (int i = 0; i < 300; ++i) {
      const size_t answered = rig.answered;
      CO_ASSERT_OK(co_await rig.ping_is_echoed());
      others = std::max(others, rig.answered - answered);
      most = std::max(most, allocated() - before);
    }
    EXPECT_LT(most, 2 * kMostBytesOfAPeer) << "with " << rig.answered << " answers";
    EXPECT_LE(others, 4 * 64u) << "calls of the other peer while one call was served";
    EXPECT_EQ(rig.server.held_back().peers, 1u);
    co_await hog.stop();
    for (int i = 0; i < 100 && rig.server.held_back().peers > 0; ++i)
      CO_ASSERT_OK(co_await rig.ping_is_echoed());
    EXPECT_EQ(rig.server.held_back().peers, 0u);
  });
  EXPECT_EQ(log.count("the token greedy"), 1u) << ::testing::PrintToString(log.lines());
}

TEST(RpcPeers, RequestsInFlightAreLimitedForAPeerAndNotForOthers) {
  LogCapture log;
  run_hogs([](HogRig& rig) -> asio::awaitable<void> {
    Hog hog(rig, token_named("greedy", 1, rig.server_runtime));
    constexpr size_t kConnections = 40;
    for (size_t i = 0; i < kConnections; ++i)
      CO_ASSERT_OK(co_await hog.send(many_requests(Method::kList, 10'000)));
    for (int i = 0; i < 500; ++i)
      CO_ASSERT_OK(co_await rig.ping_is_echoed());
    EXPECT_GE(rig.calls_waiting, 4096u);
    EXPECT_LE(rig.calls_waiting, 4096u + 4 * kConnections);
    co_await hog.stop();
  });
}

TEST(RpcPeers, WhoeverSharesATokenWithAGreedyProgramStillGetsAnswers) {
  LogCapture log;
  run_hogs([](HogRig& rig) -> asio::awaitable<void> {
    const Secret token = token_named("shared", 1, rig.server_runtime);
    Hog hog(rig, token);
    for (size_t i = 0; i < 40; ++i)
      CO_ASSERT_OK(co_await hog.send(many_requests(i % 2 == 0 ? Method::kList : Method::kDiskFree, 5'000)));
    for (int i = 0; i < 200; ++i)
      CO_ASSERT_OK(co_await rig.ping_is_echoed());
    Client other(rig.client_runtime, token);
    const proto::ErrorDetail request = text("hello");
    proto::ErrorDetail response;
    for (int i = 0; i < 200; ++i) {
      const Context context = Context{}.with_deadline(rig.client_runtime.clock.now() + 10s);
      CO_ASSERT_OK(co_await other.call(context, rig.at, Method::kPing, request, response));
    }
    co_await other.stop();
    co_await hog.stop();
  });
}

TEST(RpcPeers, LargeFramesThatAreHalfSentTakeBoundedMemory) {
  LogCapture log;
  run_hogs([](HogRig& rig) -> asio::awaitable<void> {
    Hog hog(rig, token_named("greedy", 1, rig.server_runtime));
    const std::string frame =
        request_frame(Method::kPing, 1, text(std::string(1'000'000, 'x')).SerializeAsString());
    const size_t before = allocated();
    constexpr size_t kConnections = 300;
    for (size_t i = 0; i < kConnections; ++i)
      CO_ASSERT_OK(co_await hog.send(frame.substr(0, 1000)));
    for (int i = 0; i < 100; ++i)
      CO_ASSERT_OK(co_await rig.ping_is_echoed());
    EXPECT_LT(allocated() - before, kMostBytesOfAPeer + kConnections * (100 << 10));
    co_await hog.stop();
  });
}

TEST(RpcPeers, ALargeFrameThatStandsStillMakesRoomForOthersOfItsPeer) {
  LogCapture log;
  simulation::Simulation simulation(1);
  simulation::SimNode server_node(simulation, "server"), client_node(simulation, "client");
  HogRig rig(server_node.runtime(), client_node.runtime());
  rig.start("server", 7000);
  const auto body = [&]() -> asio::awaitable<void> {
    const Secret token = token_named("shared", 1, rig.server_runtime);
    Hog hog(rig, token);
    const std::string large = text(std::string(1'000'000, 'x')).SerializeAsString();
    constexpr size_t kConnections = 30;
    for (size_t i = 0; i < kConnections; ++i)
      CO_ASSERT_OK(co_await hog.send(request_frame(Method::kPing, 1, large).substr(0, 900'000)));
    Client other(rig.client_runtime, token);
    proto::ErrorDetail request, response;
    CO_ASSERT_TRUE(request.ParseFromString(large));
    const Context context = Context{}.with_deadline(rig.client_runtime.clock.now() + 2min);
    CO_ASSERT_OK(co_await other.call(context, rig.at, Method::kPing, request, response));
    EXPECT_EQ(response.message(), request.message());
    co_await other.stop();
    co_await hog.stop();
  };
  simulation.run(body());
  simulation.run(rig.stop());
}

TEST(RpcPeers, ManyLargeRequestsAtOnceAreAllAnswered) {
  run_hogs([](HogRig& rig) -> asio::awaitable<void> {
    runtime::TaskGroup tasks(rig.client_runtime);
    std::vector<std::unique_ptr<Client>> clients;
    size_t answered = 0;
    const auto ask = [&](Client& client) -> asio::awaitable<void> {
      const proto::ErrorDetail request = text(std::string(700'000, 'x'));
      proto::ErrorDetail response;
      const Context patient = Context{}.with_deadline(rig.client_runtime.clock.now() + 5min);
      KINTSUGI_EXPECT_OK(co_await client.call(patient, rig.at, Method::kPing, request, response));
      answered += response.message() == request.message() ? 1 : 0;
    };
    for (int i = 0; i < 20; ++i) {
      clients.push_back(std::make_unique<Client>(rig.client_runtime, test_secret()));
      proto::ErrorDetail response;  // connected, for a handshake has little time
      CO_ASSERT_OK(co_await clients.back()->call(Context{}, rig.at, Method::kPing, text("first"), response));
    }
    for (const auto& client : clients)
      for (int call = 0; call < 15; ++call)
        tasks.spawn(ask(*client));
    co_await tasks.join();
    EXPECT_EQ(answered, 300u);
    for (auto& client : clients)
      co_await client->stop();
  });
}

/// Lets `count` calls of the method wait at the rig's server, each with a request of so many bytes.
class Waiting {
 public:
  Waiting(HogRig& rig, Method method, size_t count, size_t bytes)
      : Waiting(rig, method, count, bytes, rig.client) {}
  Waiting(HogRig& rig, Method method, size_t count, size_t bytes, Client& by) : tasks_(rig.client_runtime) {
    for (size_t i = 0; i < count; ++i)
      tasks_.spawn(wait(rig, by, method, bytes));
  }
  asio::awaitable<void> join() { co_await tasks_.join(); }

 private:
  static asio::awaitable<void> wait(HogRig& rig, Client& by, Method method, size_t bytes) {
    const proto::ErrorDetail request = text(std::string(bytes, 'x'));
    proto::ErrorDetail response;
    KINTSUGI_EXPECT_OK(co_await by.call(Context{}, rig.at, method, request, response));
  }
  runtime::TaskGroup tasks_;
};

TEST(RpcPeers, CallsThatWaitForNewsHoldNoRoomForTheLargestAnswerThatThereEverWas) {
  run_hogs([](HogRig& rig) -> asio::awaitable<void> {
    proto::ErrorDetail request, response;
    CO_ASSERT_OK(co_await rig.client.call(Context{}, rig.at, Method::kAwaitRecalls, request, response));
    EXPECT_GT(response.message().size(), 900'000u);
    Waiting idle(rig, Method::kAwaitRecalls, 200, 1);
    for (int i = 0; i < 100 && rig.calls_waiting < 200; ++i)
      CO_ASSERT_OK(co_await rig.ping_is_echoed());
    EXPECT_EQ(rig.calls_waiting, 200u);
    const Context soon = Context{}.with_deadline(rig.client_runtime.clock.now() + 5s);
    const auto echo = co_await rig.ping(std::string(20'000, 'x'), soon);
    EXPECT_TRUE(echo) << echo.error();
    rig.release();
    co_await idle.join();
  });
}

TEST(RpcPeers, ALargeRequestThatRunsHoldsOnlyWhatItAndItsAnswerTake) {
  run_hogs([](HogRig& rig) -> asio::awaitable<void> {
    Waiting running(rig, Method::kList, 150, 100'000);
    for (int i = 0; i < 200 && rig.calls_waiting < 150; ++i)
      CO_ASSERT_OK(co_await rig.ping_is_echoed());
    EXPECT_EQ(rig.calls_waiting, 150u);
    EXPECT_EQ(rig.server.held_back().peers, 0u);
    rig.release();
    co_await running.join();
  });
}

TEST(RpcPeers, WhoeverManyCallsOfItsPeerWaitForCanStillSaySo) {
  run_hogs([](HogRig& rig) -> asio::awaitable<void> {
    proto::ErrorDetail request, response;
    CO_ASSERT_OK(co_await rig.client.call(Context{}, rig.at, Method::kOpenRead, request, response));
    Waiting waiting(rig, Method::kOpenRead, 70, 1);
    for (int i = 0; i < 500 && rig.calls_waiting < 60; ++i)
      co_await asio::post(rig.client_runtime.executor, asio::use_awaitable);
    EXPECT_GE(rig.calls_waiting, 60u);
    Client owner(rig.client_runtime, test_secret());
    CO_ASSERT_OK(co_await owner.call(Context{}, rig.at, Method::kPing, text("first"), response));
    Waiting medium(rig, Method::kPing, 1, 20'000, owner);
    for (int i = 0; i < 500; ++i)
      co_await asio::post(rig.client_runtime.executor, asio::use_awaitable);
    const Context soon = Context{}.with_deadline(rig.client_runtime.clock.now() + 12s);
    KINTSUGI_EXPECT_OK(co_await owner.call(soon, rig.at, Method::kPing, text("small"), response));
    rig.release();
    co_await waiting.join();
    co_await medium.join();
    co_await owner.stop();
  });
}

TEST(RpcPeers, WhatKeepsItsSenderAliveIsLetThroughWhateverItsPeerHas) {
  LogCapture log;
  run_hogs([](HogRig& rig) -> asio::awaitable<void> {
    const Secret token = token_named("shared", 1, rig.server_runtime);
    Hog hog(rig, token);
    for (size_t i = 0; i < 5; ++i)
      CO_ASSERT_OK(co_await hog.send(many_requests(Method::kList, 2'000)));
    for (int i = 0; i < 500 && rig.calls_waiting < Peer::kMostRequests; ++i)
      CO_ASSERT_OK(co_await rig.ping_is_echoed());
    Client mount(rig.client_runtime, token);
    Waiting calls(rig, Method::kOpenRead, 2 * Peer::kFewRequests, 1,
                  mount);  // the last ones of them are not read
    const proto::Empty request;
    proto::Empty response;
    for (int i = 0; i < 100; ++i) {
      const Context context = Context{}.with_deadline(rig.client_runtime.clock.now() + 10s);
      CO_ASSERT_OK(co_await mount.call(context, rig.at, Method::kKeepSession, request, response));
    }
    const Context soon = Context{}.with_deadline(rig.client_runtime.clock.now() + 100ms);
    EXPECT_EQ((co_await mount.call(soon, rig.at, Method::kPing, request, response)).code(),
              Code::kDeadlineExceeded)
        << "its share is taken, or this tests nothing";
    co_await hog.stop();
    rig.release();
    co_await calls.join();
    co_await mount.stop();
  });
}

TEST(RpcPeers, OnePeersConnectionsLeaveRoomForThoseOfOthers) {
  LogCapture log;
  run_hogs(
      [](HogRig& rig) -> asio::awaitable<void> {
        Hog hog(rig, token_named("greedy", 1, rig.server_runtime));
        Status refused;
        for (int i = 0; i < 40 && refused.ok(); ++i)
          refused = co_await hog.send(request_frame(Method::kList, 1));
        EXPECT_EQ(refused.code(), Code::kUnavailable);
        EXPECT_NE(refused.message().find("the token greedy"), std::string::npos) << refused;
        EXPECT_NE(refused.message().find("connections"), std::string::npos) << refused;
        EXPECT_GE(hog.open(), 10u);
        CO_ASSERT_OK(co_await rig.ping_is_echoed());
        Hog second(rig, token_named("second", 2, rig.server_runtime));
        CO_ASSERT_OK(co_await second.send(request_frame(Method::kList, 1)));
        co_await second.stop();
        co_await hog.stop();
      },
      {.max_connections = 24});
  EXPECT_EQ(log.count("closing connection"), 1u);
}

}  // namespace
}  // namespace kintsugi::rpc
