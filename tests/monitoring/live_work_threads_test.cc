// What another thread sees of the tables of open work while the loop writes them, and the clock that both read.
#include <algorithm>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "tests/monitoring/hand_clock.h"
#include "tests/monitoring/open_records.h"

namespace kintsugi::sight {
namespace {

constexpr Site kThreadsOuter{"test.outer", {"x", "y"}, {"r"}};

TEST(LiveWork, ReadersSeeWholeRecordsWhileTheLoopWrites) {
  HandClock clock;
  LiveWork live(clock, false, {.records = 8, .tasks = 8});
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (uint64_t i = 1; !stop; ++i)
      live.close(live.open({},
                           {.site = &kThreadsOuter,
                            .trace_id = i,
                            .span_id = i,
                            .parent_span_id = i,
                            .path = i,
                            .task = true},
                           0),
                 0);
  });
  uint64_t last = 0;
  for (int seen = 0; seen < 20000;) {
    for (const LiveRecord& record : open_records(live)) {
      ASSERT_EQ(record.trace_id, record.span_id);
      ASSERT_EQ(record.trace_id, record.path);
      ASSERT_GE(record.trace_id, last);
      last = record.trace_id;
      ++seen;
    }
  }
  stop = true;
  writer.join();
}

TEST(LiveWork, ATargetThatIsReadMeanwhileHasNoMoreAnswersThanRequests) {
  TargetTable targets(2);
  targets.name(5, "peer", false);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    while (!stop) {
      targets.count_submitted(5);
      targets.count_completed(5, 1);
    }
  });
  uint64_t wrong = 0;
  // What is wrong shows in one to a thousand of so many reads.
  for (int read = 0; read < 12'000'000; ++read) {
    const TargetTotals target = targets.read()[0];
    wrong += target.completed > target.submitted;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(wrong, 0u);
}

/// The steady clock, which is now and then read late, as by a thread that has no processor.
class LateClock final : public HandClock {
 public:
  TimePoint now() const override {
    std::this_thread::sleep_for(late);
    return std::chrono::steady_clock::now();
  }
  Duration late{};
};

TEST(TickClock, OneLateLookAtTheClockMakesNoOtherTimeThanTheClocks) {
  LateClock clock;
  TickClock ticks(clock, true);
  (void)ticks.now_ns();
  std::this_thread::sleep_for(20ms);
  clock.late = 10ms;
  (void)ticks.now_ns();
  clock.late = 0ms;
  Duration worst{};
  for (int look = 0; look < 300; ++look) {
    const TimePoint before = std::chrono::steady_clock::now();
    const TimePoint told{Duration(ticks.now_ns())};
    const TimePoint after = std::chrono::steady_clock::now();
    worst = std::max({worst, before - told, told - after});
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_LT(worst, 20ms);
}

}  // namespace
}  // namespace kintsugi::sight
