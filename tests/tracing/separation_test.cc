// How much of concurrent work the flow construction puts right, beside rules alone and DPM; and how fast.
#include <cstdio>
#include <ctime>

#include "common/base/draws.h"
#include "tests/tracing/rig.h"
#include "tests/tracing/workload.h"
#include "tracing/anomaly/profile.h"
#include "tracing/flow/dependence_graph.h"
#include "tracing/flow/directives.h"
#include "tracing/flow/dpm.h"

namespace kintsugi::flow {
namespace {

/// Percent of the events of operations that are in the flow of their operation's start event.
double percent_right(const Workload& workload, const Flows& flows) {
  size_t right = 0, all = 0;
  for (EventId id = 0; id < flows.of.size(); ++id) {
    if (workload.operation[id] == kNone) continue;
    ++all;
    right += flows.of[id] == flows.of[workload.start[workload.operation[id]]];
  }
  return 100 * static_cast<double>(right) / static_cast<double>(all);
}

std::vector<FunctionId> idle_functions(const Trace& trace) {
  const auto directives = parse_directives(kWorkloadDirectives);
  return idle_functions(trace.functions(), directives->idle);
}

Trace take_trace(Workload& workload) {
  auto trace = Trace::from(std::move(workload.recorded));
  if (!trace) throw std::runtime_error(trace.error().to_string());
  return std::move(*trace);
}

TEST(Separation, TwoToSixtyFourConcurrentOperationsAreKeptApart) {
  std::printf("operations at a time   events  with directives  rules only     DPM\n");
  for (size_t concurrent : {1, 2, 4, 8, 16, 32, 64}) {
    Workload workload =
        workload_of({.seed = concurrent, .concurrent = concurrent, .operations = 100 + 10 * concurrent});
    const Trace trace = take_trace(workload);
    const Matching matching = match_messages(trace);
    const std::vector<FunctionId> idle = idle_functions(trace);
    const Flows flows = build_flows(trace, matching, {.idle = idle});
    const Flows rules = build_flows(trace, matching, {.directives = false});
    const double ours = percent_right(workload, flows), ruled = percent_right(workload, rules);
    const double dpm = percent_right(workload, build_flows_as_dpm(trace, matching));
    std::printf("%18zu %10zu %15.2f %% %9.2f %% %5.2f %%\n", concurrent, trace.size(), ours, ruled, dpm);
    EXPECT_GE(ours, 99);
    EXPECT_GT(ours, ruled);
    EXPECT_GT(ruled, dpm);
    for (const Flow& flow : flows.flows)
      EXPECT_THAT(flow.reason, testing::AnyOf(Reason::kStart, Reason::kIdle, Reason::kThread));
  }
}

/// One directive is left out, or some records are lost: this shows how many events are then in the wrong flow.
TEST(Separation, AForgottenDirectiveCostsMoreThanLostRecords) {
  const Workload workload = workload_of({.seed = 16, .concurrent = 16, .operations = 260});
  const auto judge = [&](const char* name, const Recorded& recorded) {
    const auto trace = Trace::from(recorded);
    const std::vector<FunctionId> idle = idle_functions(*trace);
    const Flows flows = build_flows(*trace, match_messages(*trace), {.idle = idle});
    std::map<Reason, size_t> reasons;
    for (const Flow& flow : flows.flows)
      ++reasons[flow.reason];
    std::printf(
        "without %-16s %7.2f %% right, %zu flows that nobody started\n", name, percent_right(workload, flows),
        reasons[Reason::kUnmatchedReceive] + reasons[Reason::kUnmatchedEnd] + reasons[Reason::kAfterLoss]);
    return std::pair(percent_right(workload, flows), reasons);
  };
  for (uint32_t attribute = 0; attribute < workload.recorded.attributes.size(); ++attribute) {
    Recorded recorded = workload.recorded;
    for (Event& event : recorded.events)
      if (event.attribute == attribute)
        event = {.time_ns = event.time_ns, .process = event.process, .thread = event.thread};
    EXPECT_LT(judge(recorded.attributes[attribute].name.c_str(), recorded).first, 99.5);
  }
  // One record in a thousand is lost, with a note that it is.
  Recorded lossy = workload.recorded;
  for (EventId id = 500; id < lossy.events.size(); id += 1'000)
    lossy.events[id] = {.time_ns = lossy.events[id].time_ns,
                        .process = lossy.events[id].process,
                        .thread = lossy.events[id].thread,
                        .kind = Kind::kLost};
  auto [right, reasons] = judge("1 in 1000", lossy);
  EXPECT_GT(right, 90);
  EXPECT_EQ(reasons[Reason::kAfterLoss], lossy.events.size() / 1'000 + (lossy.events.size() % 1'000 > 500));
}

/// Flow properties 1, 3 and 4 (section 4.2): disjoint and complete by construction, and all of a flow comes after its start.
TEST(Separation, EveryEventOfAFlowComesAfterItsStart) {
  Workload workload = workload_of({.seed = 7, .concurrent = 8, .operations = 60});
  const Trace trace = take_trace(workload);
  const Matching matching = match_messages(trace);
  const std::vector<FunctionId> idle = idle_functions(trace);
  const Flows flows = build_flows(trace, matching, {.idle = idle});
  const DependenceGraph graph(trace, matching, match_directives(trace));
  const auto clocks = graph.lamport_clocks();
  ASSERT_TRUE(clocks);
  size_t events = 0;
  for (const Flow& flow : flows.flows)
    events += flow.events;
  EXPECT_EQ(events, trace.size());
  for (EventId id = 0; id < trace.size(); ++id) {
    if (flows.parent[id] == kNone) continue;
    EXPECT_EQ(flows.of[id], flows.of[flows.parent[id]]);
    EXPECT_GT((*clocks)[id], (*clocks)[flows.parent[id]]) << "an edge leads to what is later";
  }
  for (const Join& join : flows.joins) {
    EXPECT_EQ(flows.of[join.from], flows.of[join.to]);
    EXPECT_GT((*clocks)[join.to], (*clocks)[join.from]);
  }
}

TEST(Separation, OperationsThatWaitedForOneCommitShareIt) {
  Workload workload = workload_of({.seed = 3, .concurrent = 64, .operations = 300});
  const Trace trace = take_trace(workload);
  const Flows flows = flows_in(trace);
  size_t together = 0;
  for (const SharedWork& work : flows.shared)
    together = std::max(together, 1 + work.others.size());
  EXPECT_GT(together, 2u);
}

TEST(Separation, OrderOfThreadsInTheTraceDoesNotMatter) {
  Workload workload = workload_of({.seed = 9, .concurrent = 8, .operations = 60});
  Recorded sorted = workload.recorded;
  std::vector<EventId> order(sorted.events.size()), place(order.size());
  for (EventId id = 0; id < order.size(); ++id)
    order[id] = id;
  std::stable_sort(order.begin(), order.end(), [&](EventId a, EventId b) {
    const Event &one = workload.recorded.events[a], &two = workload.recorded.events[b];
    return std::tie(one.thread, one.process) > std::tie(two.thread, two.process);
  });
  for (EventId i = 0; i < order.size(); ++i)
    sorted.events[i] = workload.recorded.events[order[i]], place[order[i]] = i;
  const Trace mixed = take_trace(workload);
  const auto grouped = Trace::from(std::move(sorted));
  ASSERT_TRUE(grouped);
  const Flows one = flows_in(mixed), two = flows_in(*grouped);
  ASSERT_EQ(one.flows.size(), two.flows.size());
  for (EventId id = 0; id < one.of.size(); ++id)
    EXPECT_EQ(one.flows[one.of[id]].root, order[two.flows[two.of[place[id]]].root]);
}

TEST(Separation, AMillionEventsTakeSeconds) {
  Workload workload = workload_of({.seed = 5, .concurrent = 64, .operations = 4'600});
  // The processor's time is measured, since other tests run beside this one.
  const auto seconds_since = [](clock_t begin) {
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  clock_t begin = std::clock();
  const Trace trace = take_trace(workload);
  EXPECT_GT(trace.size(), 1'000'000u);
  const Matching matching = match_messages(trace);
  const double matched = seconds_since(begin);
  begin = std::clock();
  const std::vector<FunctionId> idle = idle_functions(trace);
  const Flows flows = build_flows(trace, matching, {.idle = idle});
  const double separated = seconds_since(begin);
  begin = std::clock();
  anomaly::CallPaths paths;
  const auto totals = anomaly::totals_of(trace, anomaly::groups_by_flow(flows), paths);
  const double profiled = seconds_since(begin);
  std::printf(
      "%zu events, %zu flows, %zu paths: matched in %.2f s, separated in %.2f s, profiles in %.2f s\n",
      trace.size(), flows.flows.size(), paths.size(), matched, separated, profiled);
  EXPECT_GE(percent_right(workload, flows), 99);
  EXPECT_LT(matched + separated + profiled, 10.0 * KINTSUGI_TIME_FACTOR);
}

/// Any events at all: an error or flows that are complete and disjoint, and profiles of them.
TEST(Separation, GarbageHasFlowsToo) {
  for (uint64_t seed = 1; seed <= 3'000; ++seed) {
    Draws draws(seed);
    Recorded garbage;
    garbage.processes.resize(1 + draws.below(3));
    garbage.functions.resize(1 + draws.below(3));
    garbage.channels.resize(1 + draws.below(3));
    garbage.channels[0].datagrams = draws.below(2) != 0;
    garbage.attributes.resize(1 + draws.below(2));
    garbage.attributes[0].shared = draws.below(2) != 0;
    for (size_t i = draws.below(60); i > 0; --i) {
      const bool wild = draws.below(200) == 0;
      garbage.events.push_back(
          {.time_ns = static_cast<int64_t>(draws.below(4)) * (draws.below(9) ? 1 : int64_t{1} << 59) - 1,
           .process = static_cast<uint32_t>(draws.below(garbage.processes.size() + wild)),
           .thread = static_cast<uint32_t>(draws.below(2)),
           .function = static_cast<uint32_t>(draws.below(garbage.functions.size() + wild)),
           .kind = static_cast<Kind>(draws.below(static_cast<size_t>(kLastKind) + 1 + wild)),
           .channel = static_cast<uint32_t>(draws.below(garbage.channels.size() + wild)),
           .offset = static_cast<int64_t>(draws.below(40)) - 5,
           .size = draws.below(8) ? draws.below(12) : uint64_t{1} << (draws.below(62)),
           .attribute = static_cast<uint32_t>(draws.below(garbage.attributes.size() + wild)),
           .value = draws.below(3)});
    }
    const auto trace = Trace::from(std::move(garbage));
    if (!trace) continue;
    const Matching matching = match_messages(*trace);
    EXPECT_LE(matching.units.size(), 2 * trace->size());
    for (const Flows& flows : {build_flows(*trace, matching), build_flows_as_dpm(*trace, matching)}) {
      size_t events = 0;
      for (FlowId id = 0; id < flows.flows.size(); ++id) {
        events += flows.flows[id].events;
        EXPECT_EQ(flows.of[flows.flows[id].root], id);
      }
      EXPECT_EQ(events, trace->size()) << "seed " << seed;
      anomaly::CallPaths paths;
      for (const auto& totals : anomaly::totals_of(*trace, anomaly::groups_by_flow(flows, true), paths))
        for (const anomaly::PathTotal& total : totals)
          EXPECT_GE(total.self_ns, 0);
    }
    (void)DependenceGraph(*trace, matching, match_directives(*trace)).lamport_clocks();
  }
}

}  // namespace
}  // namespace kintsugi::flow
