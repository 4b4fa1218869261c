// A loop that looks out for its next event before it sleeps serves the same events, and sleeps when none is expected.
#include <future>
#include <thread>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "common/runtime/production/production_runtime.h"
#include "common/runtime/production/run.h"

namespace kintsugi::runtime {
namespace {

Duration processor_time() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  const auto time = [](const timeval& part) {
    return std::chrono::seconds(part.tv_sec) + std::chrono::microseconds(part.tv_usec);
  };
  return time(used.ru_utime) + time(used.ru_stime);
}

/// Returns the processor time that the loop's thread takes during a long wait. Some short ones come before, of which it learns.
Duration taken_by(ProductionRuntime& runtime) {
  Duration taken{};
  const auto wait = [&](Duration time) -> asio::awaitable<void> {
    asio::steady_timer timer(runtime.io(), time);
    co_await timer.async_wait(asio::use_awaitable);
  };
  const auto measured = [&]() -> asio::awaitable<void> {
    for (int i = 0; i < 5; ++i)
      co_await wait(std::chrono::milliseconds(1));
    const Duration before = processor_time();
    co_await wait(std::chrono::milliseconds(300));
    taken = processor_time() - before;
  };
  run_on(runtime, measured());
  return taken;
}

constexpr Duration kLong = std::chrono::seconds(10), kShort = std::chrono::microseconds(50);
constexpr Duration kLittle = std::chrono::milliseconds(20);

TEST(BusyPoll, LooksOutAsLongAsItIsToldWhereEventsAreExpected) {
  ProductionRuntime runtime(kLong);
  runtime.expects_soon = [] { return true; };
  EXPECT_GT(taken_by(runtime), kLittle);
}

TEST(BusyPoll, SleepsWhereNoneIsExpectedAndAfterAShortWhile) {
  ProductionRuntime unexpected(kLong), shortly(kShort);
  EXPECT_LT(taken_by(unexpected), kLittle);
  shortly.expects_soon = [] { return true; };
  EXPECT_LT(taken_by(shortly), kLittle);
}

TEST(BusyPoll, ServesWhatOtherThreadsPostWhileItLooksOut) {
  ProductionRuntime runtime(kLong);
  runtime.expects_soon = [] { return true; };
  std::thread loop([&] { runtime.run(); });
  runtime.wait_until_running();
  for (int i = 0; i < 100; ++i) {
    std::promise<void> served;
    asio::post(runtime.io(), [&] { served.set_value(); });
    ASSERT_EQ(served.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  }
  runtime.stop();
  loop.join();
}

}  // namespace
}  // namespace kintsugi::runtime
