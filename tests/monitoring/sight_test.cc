#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "monitoring/sight/module.h"
#include "monitoring/sight/recorder.h"
#include "monitoring/sight/thread_log.h"

namespace kintsugi::sight {
namespace {

constexpr Site kOuter{"test.outer", {"bytes"}, {"blocks"}};
constexpr Site kInner{"test.inner"};

/// A clock that moves only when told to.
class HandClock : public runtime::Clock {
 public:
  TimePoint now() const override { return now_; }
  WallTime wall_now() const override { return WallTime(now_.time_since_epoch()); }
  runtime::TimerId call_at(TimePoint, std::function<void()>) override { return runtime::TimerId::kNone; }
  bool cancel(runtime::TimerId) override { return false; }
  void advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{1h};
};

TEST(Sight, RecordsNamesInputsOutputsAndDuration) {
  HandClock clock;
  Recorder recorder(clock, 1);
  {
    Module outer{recorder.root_context(), kOuter, {4096.0}};
    clock.advance(3ms);
    outer.output(0, 7);
    EXPECT_FALSE(outer.finish(Status{Code::kCorrupt, "block 3"}).ok());
  }
  const auto events = recorder.recent_events(10);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].site->name, "test.outer");
  EXPECT_EQ(events[0].inputs[0], 4096.0);
  EXPECT_EQ(events[0].outputs[0], 7.0);
  EXPECT_EQ(events[0].output_mask, 1);
  EXPECT_EQ(events[0].duration, 3ms);
  EXPECT_EQ(events[0].code, Code::kCorrupt);
  EXPECT_NE(events[0].trace_id, 0u);
}

TEST(Sight, NestedModulesShareTheTraceAndNameTheirCallingContext) {
  HandClock clock;
  Recorder recorder(clock, 1);
  {
    Module outer{recorder.root_context(), kOuter};
    Module inner{outer.context(), kInner};
    EXPECT_EQ(inner.context().trace.trace_id, outer.context().trace.trace_id);
  }
  {
    Module alone{recorder.root_context(), kInner};
  }
  const auto totals = recorder.totals();
  ASSERT_EQ(totals.size(), 3u) << "inner below outer and inner alone are different calling contexts";
  const uint64_t nested = child_path(child_path(0, kOuter), kInner);
  EXPECT_EQ(recorder.path_name(nested), "test.outer > test.inner");
}

TEST(Sight, AContextFromAnotherProcessContinuesItsTraceAndPath) {
  HandClock clock;
  Recorder here(clock, 1), there(clock, 2);
  Context over_the_wire;
  {
    Module outer{here.root_context(), kOuter};
    over_the_wire.trace = outer.context().trace;
  }
  over_the_wire.recorder = &there;
  {
    Module inner{over_the_wire, kInner};
  }
  const auto events = there.recent_events(1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].trace_id, over_the_wire.trace.trace_id);
  EXPECT_EQ(events[0].parent_span_id, over_the_wire.trace.span_id);
  EXPECT_EQ(there.path_name(events[0].path), "(remote) > test.inner");
}

TEST(Sight, MemoryIsBoundedAndTheNewestEventsStay) {
  HandClock clock;
  Recorder recorder(clock, 1, {.ring_events = 8, .max_paths = 4});
  for (int i = 0; i < 100; ++i)
    Module{recorder.root_context(), kOuter, {double(i)}};
  const auto events = recorder.recent_events(1000);
  ASSERT_EQ(events.size(), 8u);
  double smallest = 1e9;
  for (const Event& event : events)
    smallest = std::min(smallest, event.inputs[0]);
  EXPECT_EQ(smallest, 92.0);
  EXPECT_EQ(recorder.totals()[0].count, 100u);

  // Deeper and deeper nesting makes new paths; past the limit they are counted together.
  Context context = recorder.root_context();
  for (int depth = 0; depth < 20; ++depth) {
    Module module{context, kInner};
    context = module.context();
  }
  const auto totals = recorder.totals();
  EXPECT_LE(totals.size(), 5u);
  uint64_t count = 0;
  for (const PathTotals& path : totals)
    count += path.count;
  EXPECT_EQ(count, 120u);
}

TEST(Sight, HistogramBucketsArePowersOfTwoMicroseconds) {
  EXPECT_EQ(duration_bucket(999ns), 0u);
  EXPECT_EQ(duration_bucket(1us), 1u);
  EXPECT_EQ(duration_bucket(3us), 2u);
  EXPECT_EQ(duration_bucket(4us), 3u);
  EXPECT_EQ(duration_bucket(1h), PathTotals::kBuckets - 1);
}

TEST(Sight, ReadersSeeWholeEventsWhileAThreadWrites) {
  HandClock clock;
  Recorder recorder(clock, 1, {.ring_events = 16});
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (double i = 1; !stop; ++i) {
      Module module{recorder.root_context(), kOuter, {i, i, i, i}};
      module.output(0, i);
    }
  });
  size_t seen = 0;
  while (seen < 20000) {
    for (const Event& event : recorder.recent_events(16)) {
      for (double input : event.inputs)
        ASSERT_EQ(input, event.outputs[0]) << "a torn event";
      ++seen;
    }
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace kintsugi::sight
