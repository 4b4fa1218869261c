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
  Reporter reporter(recorder, 42, {.kind = "client"});
  const auto report = reporter.make(production.runtime().clock.now(), production.runtime().clock.wall_now());
  ASSERT_EQ(report.devices_size(), 1);
  EXPECT_EQ(report.devices(0).name(), rig.at.to_string());
  EXPECT_EQ(report.devices(0).complaints(), 2u);
  EXPECT_EQ(report.devices(0).complained_of(), "Ping");
}

#endif

}  // namespace
}  // namespace kintsugi::sight
