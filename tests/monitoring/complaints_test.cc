// From a message that comes twice, over a real connection, to the report of whoever got it.
#include <gmock/gmock.h>

#include "common/runtime/fault_points.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/reporter.h"
#include "tests/common/rpc_rig.h"

namespace kintsugi::sight {
namespace {

#ifdef KINTSUGI_FAULT_POINTS

TEST(Complaints, AnAnswerThatComesTwiceIsCountedAndALateOneIsNot) {
  runtime::ProductionRuntime production;
  runtime::FaultPoints faults(production.io().get_executor(), production.runtime().clock);
  runtime::Runtime with_faults = production.runtime();
  with_faults.faults = &faults;
  Recorder recorder(production.runtime().clock, 1);
  rpc::Rig rig(with_faults, production.runtime());
  auto body = [&]() -> asio::awaitable<void> {
    rig.start();
    const auto ping = [&](Duration limit) -> asio::awaitable<bool> {
      Context context = recorder.root_context(production.runtime().clock.now() + limit);
      co_return static_cast<bool>(co_await rig.ping("hello", context));
    };
    (void)faults.set(
        {.point = runtime::FaultPoint::kAnswer, .action = runtime::FaultAction::kRepeat, .times = 2});
    for (int i = 0; i < 4; ++i)
      EXPECT_TRUE(co_await ping(30s));
    // This answer comes after its caller has given up.
    (void)faults.set({.point = runtime::FaultPoint::kAnswer,
                      .action = runtime::FaultAction::kDelay,
                      .times = 1,
                      .delay = 300ms});
    EXPECT_FALSE(co_await ping(50ms));
    for (int i = 0; i < 30; ++i) {
      EXPECT_TRUE(co_await ping(30s));
      asio::steady_timer pause(production.io(), 20ms);
      co_await pause.async_wait(asio::use_awaitable);
    }
    faults.clear();
    co_await rig.stop();
  };
  runtime::run_on(production, body());
  Reporter reporter(recorder, {.kind = "client"});
  const auto report = reporter.make(production.runtime().clock.now(), production.runtime().clock.wall_now());
  ASSERT_EQ(report.devices_size(), 1);
  EXPECT_EQ(report.devices(0).name(), rig.at.to_string());
  EXPECT_EQ(report.devices(0).complaints(), 2u);
  EXPECT_EQ(report.devices(0).complained_of(), "Ping");
}

TEST(OwnErrors, AreCountedAndNotWhatIsMissingOrWhoseCallerHasGone) {
  runtime::ProductionRuntime production;
  runtime::FaultPoints faults(production.io().get_executor(), production.runtime().clock);
  runtime::Runtime with_faults = production.runtime();
  with_faults.faults = &faults;
  Recorder recorder(production.runtime().clock, 1);
  rpc::Server server(with_faults, rpc::test_secret(), &recorder);
  server.handle(rpc::Method::kStat,
                [](Context, const proto::Empty&, proto::Empty&) -> asio::awaitable<Status> {
                  co_return Status{Code::kNotFound, "no such file"};
                });
  server.handle_stream(rpc::Method::kReadChunk,
                       [](Context, const proto::Empty&, rpc::Stream& stream) -> asio::awaitable<Status> {
                         const std::vector<std::byte> bytes(1 << 20);
                         const asio::const_buffer frame[] = {{bytes.data(), bytes.size()}};
                         while (true)
                           KINTSUGI_CO_TRY(co_await stream.send(rpc::text("more"), frame));
                       });
  const auto told = [&](std::string_view name) {
    Reporter reporter(recorder, {.kind = "chunkserver"});
    const auto report =
        reporter.make(production.runtime().clock.now(), production.runtime().clock.wall_now());
    for (const proto::SightRole& role : report.roles())
      if (role.name() == name) return role;
    return proto::SightRole();
  };
  auto body = [&]() -> asio::awaitable<void> {
    EXPECT_TRUE(server.start({"127.0.0.1", 0}).ok());
    rpc::Client client(production.runtime(), rpc::test_secret());
    const auto read = [&]() -> asio::awaitable<bool> {
      auto stream = co_await client.open_stream({}, server.local_endpoint(), rpc::Method::kReadChunk,
                                                proto::Empty::default_instance());
      proto::ErrorDetail header;
      co_return stream&& co_await (*stream)->receive(header);
    };
    EXPECT_TRUE(co_await read()) << "and gone before the end";
    for (int i = 0; i < 500 && told("serve.ReadChunk").ended() == 0; ++i) {
      asio::steady_timer pause(production.io(), 10ms);
      co_await pause.async_wait(asio::use_awaitable);
    }
    EXPECT_EQ(told("serve.ReadChunk").failed(), 1u);
    EXPECT_EQ(told("serve.ReadChunk").faulty(), 0u) << "its caller has gone";
    (void)faults.set(
        {.point = runtime::FaultPoint::kServeStream, .action = runtime::FaultAction::kError, .times = 1});
    EXPECT_FALSE(co_await read());
    proto::Empty none;
    const Status missing = co_await client.call({}, server.local_endpoint(), rpc::Method::kStat, none, none);
    EXPECT_EQ(missing.code(), Code::kNotFound);
    co_await client.stop();
    co_await server.stop();
  };
  runtime::run_on(production, body());
  EXPECT_EQ(told("serve.ReadChunk").failed(), 2u);
  EXPECT_EQ(told("serve.ReadChunk").faulty(), 1u);
  EXPECT_EQ(told("serve.Stat").failed(), 1u);
  EXPECT_EQ(told("serve.Stat").faulty(), 0u);
}

#endif

}  // namespace
}  // namespace kintsugi::sight
