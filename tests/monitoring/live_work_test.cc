#include "monitoring/sight/live_work.h"

#include <map>
#include <random>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "common/runtime/turn_place.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/recorder.h"
#include "tests/monitoring/hand_clock.h"
#include "tests/monitoring/open_records.h"

namespace kintsugi::sight {
namespace {

constexpr Site kOuter{"test.outer", {"x", "y"}, {"r"}};
constexpr Site kInner{"test.inner"};
constexpr Site kBranch{"test.branch"};

size_t count_open(const LiveWork& live) {
  size_t count = 0;
  TaskRecord task;
  for (uint32_t slot = 1; slot < live.tasks().slots(); ++slot)
    count += live.tasks().read(slot, task);
  return count;
}

TEST(LiveWork, AModuleThatNeverEndsIsSeenByAnotherThreadWithItsPlaceAgeAndProgress) {
  HandClock clock;
  Recorder recorder(clock, 1);
  Module outer{recorder.root_context(), kOuter};
  Module inner{outer.context(), kInner};
  clock.advance(3s);
  inner.progress(17);
  clock.advance(4s);
  std::thread([&] {
    const auto records = open_records(recorder.live());
    ASSERT_EQ(records.size(), 2u);
    EXPECT_EQ(records[1].site->name, "test.inner");
    EXPECT_TRUE(std::string(records[1].where.file_name()).ends_with("live_work_test.cc"));
    EXPECT_GT(records[1].where.line(), 20u);
    EXPECT_EQ(clock.now().time_since_epoch().count() - records[1].entered_ns, Duration(7s).count());
    EXPECT_EQ(clock.now().time_since_epoch().count() - records[1].progressed_ns, Duration(4s).count());
    EXPECT_EQ(records[1].progress, 17u);
    EXPECT_EQ(records[1].task, records[0].task);
    EXPECT_EQ(count_open(recorder.live()), 1u);
  }).join();
}

TEST(LiveWork, AWaitSaysWhatItWaitsForAndIsGoneWhenItEnds) {
  HandClock clock;
  Recorder recorder(clock, 1);
  Module outer{recorder.root_context(), kOuter};
  {
    Wait wait{outer.context(), WaitKind::kDisk, runtime::named_target(outer.context(), "/disk/a", true)};
    const auto records = open_records(recorder.live());
    ASSERT_EQ(records.size(), 2u);
    EXPECT_EQ(records[1].wait, WaitKind::kDisk);
    EXPECT_EQ(recorder.live().targets().name_of(records[1].target), "/disk/a");
    EXPECT_EQ(recorder.live().targets().read()[0].submitted - recorder.live().targets().read()[0].completed,
              1u);
    clock.advance(5ms);
  }
  EXPECT_EQ(open_records(recorder.live()).size(), 1u);
  const auto device = recorder.live().targets().read()[0];
  EXPECT_TRUE(device.device);
  EXPECT_EQ(device.completed, 1u);
  EXPECT_EQ(device.busy_ns, uint64_t(Duration(5ms).count()));
}

TEST(LiveWork, SelfTimeIsWhatChildrenAndWaitsLeave) {
  HandClock clock;
  Recorder recorder(clock, 1);
  {
    Module outer{recorder.root_context(), kOuter, {1, 2}};
    clock.advance(2ms);
    {
      Module inner{outer.context(), kInner};
      clock.advance(4ms);
    }
    {
      Wait wait{outer.context(), WaitKind::kTimer};
      clock.advance(3ms);
    }
    clock.advance(1ms);
    outer.output(0, 3);
  }
  ASSERT_EQ(recorder.recent_events(10).size(), 2u) << "one of each region, and none of a wait";
  const Event event = recorder.recent_events(1)[0];
  EXPECT_EQ(event.duration, 10ms);
  EXPECT_EQ(event.self, 3ms);
  ASSERT_EQ(event.input_count, 2);
  EXPECT_EQ(event.site->inputs[0], "x");
  EXPECT_EQ(event.inputs[0], 1.0f);
  EXPECT_EQ(event.site->inputs[1], "y");
  EXPECT_EQ(event.inputs[1], 2.0f);
  EXPECT_EQ(event.output_mask, 1);
  EXPECT_EQ(event.site->outputs[0], "r");
  EXPECT_EQ(event.outputs[0], 3.0f);
}

TEST(LiveWork, ChildrenSideBySideAreTasksAndOnlyUnmarkedOnesAreCounted) {
  HandClock clock;
  Recorder recorder(clock, 1);
  Module outer{recorder.root_context(), kOuter};
  Task first{outer.context(), kBranch}, second{outer.context(), kBranch};
  Wait join{outer.context(), WaitKind::kJoin};
  EXPECT_EQ(count_open(recorder.live()), 3u);
  EXPECT_EQ(recorder.live().implicit_tasks().count(), 0u);
  Module third{outer.context(), kInner};
  EXPECT_EQ(count_open(recorder.live()), 4u);
  EXPECT_EQ(recorder.live().implicit_tasks().count(), 1u) << "who waits cannot open something";
  EXPECT_EQ(recorder.live().implicit_tasks().places()[0], "test.inner beside what is open in test.outer");
}

TEST(LiveWork, TwoChildrenSideBySideAreTwoTasksThatTheirParentJoins) {
  HandClock clock;
  Recorder recorder(clock, 1);
  Module outer{recorder.root_context(), kOuter};
  Task first{outer.context(), kBranch}, second{outer.context(), kBranch};
  Wait join{outer.context(), WaitKind::kJoin};
  const LiveWork& live = recorder.live();
  LiveRecord parent, top;
  TaskRecord task;
  ASSERT_TRUE(live.records().read(outer.context().live.slot, parent));
  std::set<uint32_t> children;
  for (const Task* child : {&first, &second}) {
    LiveRecord record;
    ASSERT_TRUE(live.records().read(child->context().live.slot, record));
    ASSERT_TRUE(live.tasks().read(record.task, task));
    EXPECT_EQ(task.parent_task, parent.task);
    children.insert(record.task);
  }
  EXPECT_EQ(children.size(), 2u);
  EXPECT_FALSE(children.contains(parent.task));
  ASSERT_TRUE(live.tasks().read(parent.task, task));
  ASSERT_TRUE(live.records().read(task.top, top));
  EXPECT_EQ(top.wait, WaitKind::kJoin);
  EXPECT_EQ(top.target_span, outer.context().trace.span_id) << "it waits for its own children";
}

TEST(LiveWork, ACopyOfAContextThatOutlivesItsModuleChangesNothing) {
  HandClock clock;
  Recorder recorder(clock, 1);
  Context stale;
  {
    Module gone{recorder.root_context(), kOuter};
    stale = gone.context();
  }
  Module here{recorder.root_context(), kInner};
  ASSERT_EQ(here.context().live.slot, stale.live.slot);
  recorder.live().progress(stale.live, 99, 0);
  Wait wait{stale, WaitKind::kDisk};
  const auto records = open_records(recorder.live());
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].progress, 0u);
}

TEST(LiveWork, RegionsMayEndInAnyOrder) {
  HandClock clock;
  Recorder recorder(clock, 1);
  auto outer = std::make_unique<Module>(recorder.root_context(), kOuter);
  auto inner = std::make_unique<Module>(outer->context(), kInner);
  outer.reset();
  EXPECT_EQ(count_open(recorder.live()), 1u);
  EXPECT_EQ(open_records(recorder.live())[0].below, 0u);
  inner.reset();
  EXPECT_EQ(count_open(recorder.live()), 0u);
  EXPECT_EQ(open_records(recorder.live()).size(), 0u);
}

TEST(LiveWork, WhereATaskStandsAfterwardsDoesNotDependOnRegionsThatOnceEndedInAnotherOrder) {
  HandClock clock;
  Recorder recorder(clock, 1);
  const auto run = [&](bool in_order) {
    auto outer = std::make_unique<Module>(recorder.root_context(), kOuter);
    auto inner = std::make_unique<Module>(outer->context(), kInner);
    auto branch = std::make_unique<Module>(inner->context(), kBranch);
    if (!in_order) inner.reset();
    branch.reset();
    uint64_t path = 0;
    for (const LiveRecord& record : open_records(recorder.live()))
      if (inner && record.site == &kInner)
        path = recorder.live().states().read(record.state)[0].role_path == record.role_path;
    inner.reset();
    outer.reset();
    return path;
  };
  (void)run(/*in_order=*/false);
  EXPECT_EQ(run(/*in_order=*/true), 1u) << "it stands in what is open, behind what ended";
}

TEST(LiveWork, AFullTableDropsAndCountsAndLeavesOthersAlone) {
  HandClock clock;
  LiveWork live(clock, false, {.records = 5, .tasks = 3});
  std::vector<runtime::LiveHandle> handles;
  for (int i = 0; i < 10; ++i)
    handles.push_back(live.open({}, {.site = &kOuter, .span_id = uint64_t(i + 1), .task = true}, 0));
  EXPECT_EQ(live.dropped(), 8u) << "there is room for two tasks";
  EXPECT_EQ(open_records(live).size(), 2u);
  EXPECT_EQ(open_records(live)[1].span_id, 2u);
  for (auto handle : handles)
    live.close(handle, 0);
  EXPECT_EQ(open_records(live).size(), 0u);
  EXPECT_NE(live.open({}, {.site = &kOuter}, 0).slot, 0u) << "what was dropped took no place";
}

TEST(LiveWork, TransitionsSayHowLongATaskStoodWhere) {
  HandClock clock;
  Recorder recorder(clock, 1);
  {
    Module outer{recorder.root_context(), kOuter};
    for (int i = 0; i < 3; ++i) {
      clock.advance(1us);
      Module inner{outer.context(), kInner};
      clock.advance(1024ns);
    }
  }
  const auto states = recorder.live().states().read(1);
  ASSERT_EQ(states.size(), 3u) << "outer; inner; outer behind inner";
  EXPECT_EQ(states[2].last_child->name, "test.inner");
  std::map<std::pair<int, int>, EdgeTotals> edges;
  for (const auto& edge : recorder.live().edges().read())
    edges[{edge.from, edge.to}] = edge;
  EXPECT_EQ((edges[{0, 1}].count), 1u);
  EXPECT_EQ((edges[{1, 2}].count), 1u);
  EXPECT_EQ((edges[{2, 3}].count), 3u);
  EXPECT_EQ((edges[{3, 2}].count), 2u);
  EXPECT_EQ((edges[{3, 0}].count), 1u);
  EXPECT_EQ((edges[{2, 3}].sum_q8), 3 * 10 * 256) << "log2 of 1024 ns";
  EXPECT_EQ((edges[{2, 3}].histogram[10]), 3u);
}

TEST(LiveWork, WaitsAndRegionsThatAlternateInTwoTasksAreCountedWhereTheyBelong) {
  using State = std::tuple<uint64_t, const Site*, WaitKind>;  // role path, last child, what is waited for
  using Edges = std::map<std::pair<State, State>, uint64_t>;
  HandClock clock;
  Recorder recorder(clock, 1);
  Task first{recorder.root_context(), kBranch}, second{recorder.root_context(), kBranch};
  const uint64_t base = runtime::child_path(0, kBranch);
  const State outside{0, nullptr, WaitKind::kNone};
  Edges all, own;
  const Site* last_child[2] = {};
  for (int task = 0; task < 2; ++task)
    ++all[{outside, {base, nullptr, WaitKind::kNone}}];
  ++own[{outside, {base, nullptr, WaitKind::kNone}}];
  std::mt19937 random(3);
  for (int step = 0; step < 20'000; ++step) {
    clock.advance(1us);
    const int task = random() % 2 == 0 ? 0 : 1;
    const Context context = (task == 0 ? first : second).context();
    const State from{base, last_child[task], WaitKind::kNone};
    State in = from, back = from;
    if (const auto draw = random() % 4; draw < 2) {
      std::get<2>(in) = draw == 0 ? WaitKind::kResource : WaitKind::kSibling;
      Wait wait{context, std::get<2>(in)};
    } else {
      const Site& site = draw == 2 ? kInner : kOuter;
      in = {runtime::child_path(base, site), nullptr, WaitKind::kNone};
      std::get<1>(back) = last_child[task] = &site;
      Module module{context, site};
    }
    for (Edges* edges : {&all, &own}) {
      if (edges == &own && task != 0) continue;
      ++(*edges)[{from, in}];
      ++(*edges)[{in, back}];
    }
  }
  const auto states = recorder.live().states().read(0);
  const auto state = [&](uint16_t number) {
    return State{states[number].role_path, states[number].last_child, states[number].wait};
  };
  Edges counted, counted_own;
  for (const EdgeTotals& edge : recorder.live().edges().read())
    counted[{state(edge.from), state(edge.to)}] += edge.count;
  EXPECT_EQ(counted, all);
  LiveRecord record;
  TaskRecord task;
  ASSERT_TRUE(recorder.live().records().read(first.context().live.slot, record));
  ASSERT_TRUE(recorder.live().tasks().read(record.task, task));
  for (size_t i = 0; i < task.edge_count; ++i)
    counted_own[{state(task.edges[i].from), state(task.edges[i].to)}] += task.edges[i].count;
  EXPECT_EQ(task.overflowed, 0);
  EXPECT_EQ(counted_own, own);
}

TEST(LiveWork, EqualWorkHasEqualRolePathsAtAnyDepth) {
  HandClock clock;
  Recorder recorder(clock, 1);
  Module outer{recorder.root_context(), kOuter};
  Task shallow{outer.context(), kBranch};
  Task deep{shallow.context(), kBranch};
  const auto records = open_records(recorder.live());
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[1].role_path, records[2].role_path);
  EXPECT_NE(records[1].path, records[2].path);
  EXPECT_EQ(records[1].state, records[2].state);
}

TEST(LiveWork, WaitsThatEndBadlyAreRemembered) {
  HandClock clock;
  Recorder recorder(clock, 1);
  Module outer{recorder.root_context(), kOuter};
  {
    Wait wait{outer.context(), WaitKind::kResource};
    clock.advance(2s);
    (void)wait.finish(Status{Code::kDeadlineExceeded, "no slot"});
  }
  const auto ended = recorder.live().ended_waits().read();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, Code::kDeadlineExceeded);
  EXPECT_EQ(ended[0].record.wait, WaitKind::kResource);
  EXPECT_EQ(ended[0].ended_ns - ended[0].record.entered_ns, Duration(2s).count());
}

TEST(LiveWork, AMillionRandomStepsAgreeWithAMap) {
  HandClock clock;
  Recorder recorder(clock, 1);
  std::mt19937 random(7);
  std::map<uint64_t, std::unique_ptr<Module>> open;  // by span
  for (int step = 0; step < 1'000'000; ++step) {
    clock.advance(1us);
    const auto draw = random() % 8;
    if (draw < 3 && open.size() < 200) {
      Context parent = recorder.root_context();
      if (!open.empty() && draw > 0)
        parent = std::next(open.begin(), random() % open.size())->second->context();
      std::unique_ptr<Module> module;
      if (draw == 1)
        module = std::make_unique<Task>(parent, kBranch);
      else
        module = std::make_unique<Module>(parent, kInner);
      open.emplace(module->context().trace.span_id, std::move(module));
    } else if (!open.empty() && draw < 6) {
      open.erase(std::next(open.begin(), random() % open.size()));
    } else if (!open.empty()) {
      Wait wait{std::next(open.begin(), random() % open.size())->second->context(), WaitKind::kSibling};
    }
    if (step % 5000 != 0) continue;
    std::map<uint64_t, LiveRecord> seen;
    for (const LiveRecord& record : open_records(recorder.live()))
      seen.emplace(record.span_id, record);
    ASSERT_EQ(seen.size(), open.size());
    for (const auto& [span, module] : open)
      ASSERT_TRUE(seen.contains(span));
    // Every open task has a stack that holds its records, each once.
    size_t on_stacks = 0;
    TaskRecord task;
    LiveRecord record;
    for (uint32_t slot = 1; slot < recorder.live().tasks().slots(); ++slot) {
      if (!recorder.live().tasks().read(slot, task)) continue;
      for (uint32_t at = task.top; at != 0; at = record.below) {
        ASSERT_TRUE(recorder.live().records().read(at, record));
        ASSERT_EQ(record.task, slot);
        ++on_stacks;
      }
    }
    ASSERT_EQ(on_stacks, open.size());
  }
  EXPECT_EQ(recorder.live().dropped(), 0u);
}

TEST(LiveWork, AStreamThatEndsLeavesItsTaskWhereItIs) {
  HandClock clock;
  Recorder recorder(clock, 1);
  runtime::TurnPlace::here().begin();
  Module outer{recorder.root_context(), kOuter};
  const auto stream = recorder.live().open(outer.context().live, {.site = &kInner, .kind = RegionKind::kFree},
                                           recorder.live().now_ns());
  clock.advance(1ms);
  recorder.live().close(stream, recorder.live().now_ns());
  EXPECT_EQ(recorder.live().last_touched(), outer.context().live.slot);
  clock.advance(5ms);
  EXPECT_EQ(runtime::TurnPlace::here().longest(recorder.live().now_ns()), &kOuter);
}

/// Opens a stream in a task, and ends the task.
runtime::LiveHandle orphaned_stream(LiveWork& live) {
  const auto task = live.open({}, {.site = &kOuter, .task = true}, 0);
  const auto stream = live.open(task, {.site = &kInner, .kind = RegionKind::kFree}, 0);
  live.close(task, 0);
  return stream;
}

TEST(LiveWork, AWaitOnAStreamWhoseTaskHasEndedTakesNoPlaceForEver) {
  HandClock clock;
  LiveWork live(clock, false, {.records = 16, .tasks = 4});
  for (int i = 0; i < 10; ++i) {
    Context context;
    context.live = orphaned_stream(live);
    const auto wait = live.open_wait(context, WaitKind::kResource, 0, 0, 0, std::source_location::current());
    live.close_wait(wait, Code::kOk);
    live.close(context.live, 0);
  }
  EXPECT_EQ(live.dropped(), 0u);
  EXPECT_EQ(count_open(live), 0u);
}

TEST(LiveWork, WhatIsOpenedOnAStreamWhoseTaskHasEndedIsNoPartOfTheNextTaskOfThatNumber) {
  HandClock clock;
  LiveWork live(clock, false, {.records = 16, .tasks = 4});
  Context context;
  context.live = orphaned_stream(live);
  const auto next = live.open({}, {.site = &kBranch, .task = true}, 0);
  LiveRecord stream, record;
  ASSERT_TRUE(live.records().read(context.live.slot, stream));
  ASSERT_TRUE(live.records().read(next.slot, record));
  ASSERT_EQ(stream.task, record.task);
  TaskRecord task;
  (void)live.open_wait(context, WaitKind::kResource, 0, 0, 0, std::source_location::current());
  ASSERT_TRUE(live.tasks().read(record.task, task));
  EXPECT_EQ(task.top, next.slot) << "a wait";
  (void)live.open(context.live, {.site = &kInner}, 0);
  ASSERT_TRUE(live.tasks().read(record.task, task));
  EXPECT_EQ(task.top, next.slot) << "a region";
  live.progress(context.live, 3, 17);
  ASSERT_TRUE(live.tasks().read(record.task, task));
  EXPECT_EQ(task.changed_ns, 0) << "what moves on the stream is no movement of the task";
}

}  // namespace
}  // namespace kintsugi::sight
