// Calls that are served often and never wait: most of them are only counted, and nothing that matters is lost.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "monitoring/sight/module.h"
#include "monitoring/sight/open_tasks.h"
#include "monitoring/sight/recorder.h"
#include "monitoring/sight/reporter.h"
#include "monitoring/sight/thread_log.h"
#include "tests/monitoring/hand_clock.h"

namespace kintsugi::sight {
namespace {

constexpr Site kServe{"serve.look"};
constexpr Site kLook{"test.look"};
constexpr Site kOther{"test.other"};

class LightTaskTest : public testing::Test {
 protected:
  /// The context of a call that comes in, as the server makes it.
  Context call() {
    Context context;
    context.recorder = &recorder_;
    context.trace = {.trace_id = recorder_.new_id(), .span_id = 1, .path = 7};
    return context;
  }
  /// A call that takes so long, with a region in it, in which `in` is done.
  template <class In>
  void serve(Duration takes, Code code, In in) {
    runtime::Span task{call(), kServe, {.task = true, .often = true}, std::source_location::current()};
    Module module{task.context(), kLook};
    clock_.advance(takes);
    in(module.context());
    module.set_code(code);
    task.set_code(code);
  }
  void serve(Duration takes = 10us, Code code = Code::kOk) {
    serve(takes, code, [](const Context&) {});
  }
  void serve_many(int calls, Duration takes = 10us) {
    for (int i = 0; i < calls; ++i)
      serve(takes);
  }
  /// Serves calls until one is only counted: no event comes of it.
  void become_calm() {
    serve_many(500);
    while (events_of_one_more() != 0)
      ;
  }
  size_t events() const { return recorder_.recent_events(SIZE_MAX).size(); }
  size_t events_of_one_more() {
    const size_t before = events();
    serve();
    return events() - before;
  }
  PathTotals totals_of(const Site& site) const {
    for (const PathTotals& each : recorder_.totals())
      if (each.site == &site) return each;
    return {};
  }
  uint64_t transitions_to(const Site& site, WaitKind wait = WaitKind::kNone) const {
    const auto states = recorder_.live().states().read(0);
    uint64_t count = 0;
    for (const EdgeTotals& edge : recorder_.live().edges().read()) {
      const StateRecord& to = states[edge.to];
      const bool is_there = to.role_path == role_path(site) && to.last_child == nullptr && to.wait == wait;
      if (is_there) count += edge.count;
    }
    return count;
  }
  static uint64_t role_path(const Site& site) {
    const uint64_t serve = runtime::child_path(0, kServe);
    return &site == &kServe ? serve : runtime::child_path(serve, site);
  }

  HandClock clock_;
  Recorder recorder_{clock_, 1, {.ring_events = 1 << 16}};
};

TEST_F(LightTaskTest, CountsMeansAndTransitionsAddUpThoughFewCallsAreRecorded) {
  constexpr uint64_t kCalls = 20'000;
  serve_many(kCalls);
  EXPECT_LT(events(), kCalls / 10);
  for (const Site* site : {&kServe, &kLook}) {
    const PathTotals totals = totals_of(*site);
    EXPECT_LE(totals.count, kCalls);
    EXPECT_GE(totals.count, kCalls - CalmRoles::kMostLight);
    EXPECT_EQ(totals.total, Duration(10us) * totals.count);
    EXPECT_EQ(totals.histogram[duration_bucket(10us)], totals.count);
    EXPECT_NEAR(double(transitions_to(*site)), kCalls, CalmRoles::kMostLight + 1);
  }
  for (const RoleTotals& role : recorder_.live().roles().read()) {
    if (role.site != &kServe) continue;
    EXPECT_EQ(role.begun, kCalls) << "calls themselves are counted one by one";
    EXPECT_EQ(role.ended, kCalls);
    EXPECT_EQ(role.live, 0u);
  }
}

TEST_F(LightTaskTest, MeansAreTrueWhenCallsDiffer) {
  std::mt19937 random(5);
  Duration all{};
  constexpr int kCalls = 50'000;
  for (int i = 0; i < kCalls; ++i) {
    const Duration takes = random() % 10 == 0 ? 200us : 10us;
    all += takes;
    serve(takes);
  }
  const PathTotals totals = totals_of(kLook);
  EXPECT_NEAR(double(totals.total.count()) / double(totals.count), double(all.count()) / kCalls,
              0.15 * double(all.count()) / kCalls);
}

TEST_F(LightTaskTest, WhateverFailsOrTakesAMillisecondIsRecorded) {
  become_calm();
  size_t failed = 0, slow = 0;
  for (int i = 0; i < 300; ++i) {
    const bool fails = i % 7 == 0, is_slow = i % 11 == 0;
    serve(is_slow ? 1ms : 10us, fails ? Code::kNotFound : Code::kOk);
    failed += fails;
    slow += is_slow;
  }
  for (const Site* site : {&kServe, &kLook}) {
    const PathTotals totals = totals_of(*site);
    EXPECT_EQ(totals.errors, failed);
    EXPECT_EQ(totals.histogram[duration_bucket(1ms)], slow);
    const auto events = recorder_.recent_events(SIZE_MAX);
    const auto count = [&](auto is) {
      return static_cast<size_t>(
          std::ranges::count_if(events, [&](const Event& event) { return event.site == site && is(event); }));
    };
    EXPECT_EQ(count([](const Event& event) { return event.code == Code::kNotFound; }), failed);
    EXPECT_EQ(count([](const Event& event) { return event.duration >= 1ms; }), slow);
  }
}

TEST_F(LightTaskTest, WhatIsRecordedHasTheCallAroundIt) {
  become_calm();
  for (int i = 0; i < 400; ++i)
    serve(10us, Code::kOk, [&](const Context& look) {
      // The last region inside is a calling context that comes twice as often as the others.
      Module{look, kOther};
      (void)Module{look, kOther}.finish(Status{i % 9 == 0 ? Code::kNotFound : Code::kOk, ""});
    });
  std::set<uint64_t> spans{1};
  const auto events = recorder_.recent_events(SIZE_MAX);
  for (const Event& event : events)
    spans.insert(event.span_id);
  size_t failed = 0;
  for (const Event& event : events) {
    EXPECT_TRUE(spans.contains(event.parent_span_id)) << event.site->name;
    failed += event.code == Code::kNotFound;
  }
  EXPECT_EQ(failed, 45u);
}

TEST_F(LightTaskTest, AnotherThreadSeesWhatAHandlerThatHoldsTheLoopIsIn) {
  become_calm();
  const size_t before = events();
  serve(10us, Code::kOk, [&](const Context& inner) {
    std::thread([&] {
      clock_.advance(3s);
      const std::vector<OpenTask> tasks = open_tasks(recorder_.live());
      ASSERT_EQ(tasks.size(), 1u);
      ASSERT_EQ(tasks[0].records.size(), 2u);
      EXPECT_EQ(tasks[0].records[0].site, &kLook);
      EXPECT_EQ(tasks[0].records[1].site, &kServe);
      EXPECT_EQ(tasks[0].records[0].span_id, inner.trace.span_id);
      EXPECT_TRUE(std::string(tasks[0].records[0].where.file_name()).ends_with("light_task_test.cc"));

      Reporter reporter(recorder_, {});
      proto::SightLoop loop;
      loop.set_stalled_ns(uint64_t(Duration(3s).count()));
      const proto::SightReport report = reporter.make(clock_.now(), clock_.wall_now(), loop);
      EXPECT_EQ(report.loop().last_touch().path(), inner.trace.path);
      ASSERT_EQ(report.live_size(), 2);
      EXPECT_TRUE(report.live(0).task_root());
      EXPECT_NE(report.live(1).state(), 0u);
      EXPECT_EQ(report.live(1).span(), inner.trace.span_id);
      EXPECT_GE(report.live(1).still_ns(), uint64_t(Duration(3s).count()));
    }).join();
  });
  EXPECT_EQ(events(), before + 2) << "it took long";
  EXPECT_TRUE(open_tasks(recorder_.live()).empty());
}

TEST_F(LightTaskTest, ACallThatWaitsIsRecordedLikeAnyOtherAndSoAreThoseAfterIt) {
  become_calm();
  const uint64_t begun = transitions_to(kServe), looked = transitions_to(kLook);
  const size_t before = events();
  serve(10us, Code::kOk, [&](const Context& inner) {
    const Wait wait{inner, WaitKind::kResource};
    const std::vector<OpenTask> tasks = open_tasks(recorder_.live());
    ASSERT_EQ(tasks.size(), 1u);
    ASSERT_EQ(tasks[0].records.size(), 3u);
    EXPECT_EQ(tasks[0].records[0].wait, WaitKind::kResource);
    EXPECT_EQ(tasks[0].records[1].site, &kLook);
    EXPECT_EQ(tasks[0].records[2].site, &kServe);
  });
  EXPECT_EQ(events(), before + 2);
  EXPECT_EQ(transitions_to(kServe), begun + 1);
  EXPECT_EQ(transitions_to(kLook), looked + 2) << "it is entered, and gone back to from the wait";
  EXPECT_EQ(transitions_to(kLook, WaitKind::kResource), 1u);
  for (uint32_t i = 0; i < CalmRoles::kCalmAfter - 1; ++i)
    ASSERT_EQ(events_of_one_more(), 2u) << i;
  become_calm();
}

TEST_F(LightTaskTest, ChosenTracesAreRecordedWhole) {
  become_calm();
  recorder_.live().keep_traces(1);
  for (int i = 0; i < 200; ++i)
    ASSERT_EQ(events_of_one_more(), 2u);
  recorder_.live().keep_traces(0);
  become_calm();
}

TEST_F(LightTaskTest, ARoleThatIsNotBusyIsRecordedInFull) {
  become_calm();
  for (int i = 0; i < 20; ++i) {
    clock_.advance(Duration(CalmRoles::kBusyNs));
    EXPECT_EQ(events_of_one_more(), 2u);
  }
}

/// Regions, waits, calls and tasks that begin and end in any order, with calls that stay open beside others: what is
/// open is always what the tables say.
TEST_F(LightTaskTest, WhateverHappensInACallNothingIsLostOrLeftOpen) {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    serve_many(CalmRoles::kCalmAfter + 1);
    std::vector<std::unique_ptr<runtime::Span>> open;
    std::vector<std::unique_ptr<Wait>> waits;
    open.push_back(std::make_unique<runtime::Span>(call(), kServe,
                                                   runtime::Span::Options{.task = true, .often = true},
                                                   std::source_location::current()));
    for (int step = 0; step < 12; ++step) {
      const Context at = open.empty() ? call() : open[random() % open.size()]->context();
      const Context top = open.empty() ? call() : open.back()->context();
      switch (random() % 9) {
        case 0:
        case 1:
        case 2: open.push_back(std::make_unique<Module>(top, kLook)); break;
        case 3: open.push_back(std::make_unique<Module>(at, kOther)); break;
        case 4: open.push_back(std::make_unique<Task>(at, kOther)); break;
        case 5:
          open.push_back(std::make_unique<runtime::Span>(call(), kServe,
                                                         runtime::Span::Options{.task = true, .often = true},
                                                         std::source_location::current()));
          break;
        case 6:
          if (!open.empty()) waits.push_back(std::make_unique<Wait>(at, WaitKind::kResource));
          break;
        case 7:
          if (!open.empty()) open.back()->progress(random() % 5);
          break;
        case 8:
          if (!open.empty()) open.erase(open.begin() + long(random() % open.size()));
          break;
      }
      std::multiset<uint64_t> expected, seen;
      for (const auto& span : open)
        expected.insert(span->context().trace.span_id);
      LiveRecord record;
      for (uint32_t slot = 1; slot < recorder_.live().records().slots(); ++slot)
        if (recorder_.live().records().read(slot, record) && record.kind != RegionKind::kWait)
          seen.insert(record.span_id);
      ASSERT_EQ(seen, expected) << "round " << round << ", step " << step;
    }
    waits.clear();
    open.clear();
    ASSERT_TRUE(open_tasks(recorder_.live()).empty());
  }
  EXPECT_EQ(recorder_.live().dropped(), 0u);
  for (const RoleTotals& role : recorder_.live().roles().read())
    EXPECT_EQ(role.begun, role.ended);
  EXPECT_LT(recorder_.live().records().slots(), 100u) << "records are used again";
}

}  // namespace
}  // namespace kintsugi::sight
