// Who holds everybody up, of many tasks: aggregation of their counts and analysis, apart. Mitra 2016, section 2.5.3, reports less than 16 s
// for 16,384 tasks. And loops of a graph with 2^20 ways through them.
#include <random>

#include <benchmark/benchmark.h>

#include "common/base/hash.h"
#include "monitoring/model/worker_model.h"
#include "monitoring/progress/counts/loops.h"
#include "monitoring/progress/engine.h"
#include "monitoring/progress/texts/prodometer.h"
#include "monitoring/progress/texts/without_targets.h"

namespace kintsugi::progress {
namespace {

constexpr uint32_t kStates = 400;  // with two transitions each

/// Transitions of a program with loops of 20 states in loops of 100 in one of all, and a branch at each state.
std::vector<std::pair<uint32_t, uint32_t>> program() {
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  for (uint32_t state = 1; state <= kStates; state++) {
    const uint32_t next = state % kStates + 1;
    edges.emplace_back(state, next);
    const uint32_t back = state % 100 == 0 ? state - 99 : state % 20 == 0 ? state - 19 : 0;
    edges.emplace_back(state, back != 0 ? back : std::min(state + 2, (state + 19) / 20 * 20));
  }
  return edges;
}

constexpr size_t kTasksOfAProcess = 64;

std::string address_of(size_t process) {
  return "10.0.0.1:" + std::to_string(process);
}

/// Makes task `number` wait as one of a tree over all processes. The first task of each process calls one of another
/// process, and the others of its process wait for it; those of process 0 wait for task 0, which waits for nobody. So
/// each of the processes below is called by as many others as it has tasks, down to the last one.
void wait_in_tree(proto::SightLive& live, size_t number) {
  const size_t process = number / kTasksOfAProcess, place = number % kTasksOfAProcess;
  live.set_parent(2'000'000 + number);  // the span of the call that it serves
  if (place != 0) {
    live.set_wait(proto::WAIT_SIBLING);
    live.set_target_span(process * kTasksOfAProcess + 1);
  } else if (process != 0) {
    const size_t callee = process - 1;  // the tasks behind the first one of each process, in their order
    const size_t called =
        callee / (kTasksOfAProcess - 1) * kTasksOfAProcess + callee % (kTasksOfAProcess - 1) + 1;
    live.set_wait(proto::WAIT_CALL);
    live.set_target(address_of(called / kTasksOfAProcess));
    live.set_target_span(2'000'000 + called);
  }
}

/// `tasks` tasks in processes of 64, each with counts of all transitions; task `stuck` is one iteration behind. `waiting`:
/// all wait for task 0, over one another.
model::Snapshot many_tasks(size_t tasks, size_t stuck, bool waiting = false) {
  const auto edges = program();
  std::mt19937_64 random(1);
  model::Processes processes;
  for (size_t begin = 0; begin < tasks; begin += kTasksOfAProcess) {
    proto::SightReport report;
    report.set_process(begin + 1);
    report.set_sequence(1);
    report.set_kind("chunkserver");
    report.set_name("server " + std::to_string(begin / kTasksOfAProcess));
    report.set_address(address_of(begin / kTasksOfAProcess));
    report.set_all_live(true);
    proto::SightRole& role = *report.add_roles();
    role.set_role(1);
    role.set_name("worker");
    for (uint32_t state = 1; state <= kStates; state++) {
      proto::SightState& told = *report.add_new_states();
      told.set_state(state);
      told.set_role_path(state);
      told.set_role(1);
    }
    for (const auto& [from, to] : edges) {
      proto::SightEdge& edge = *report.add_edges();
      edge.set_from(from);
      edge.set_to(to);
      edge.set_count(64'000);
      edge.set_sum(64'000 * 20 * 256);
      edge.set_sum_sq(64'000LL * 400 * 65'536);
      edge.add_buckets(64'000);
    }
    for (size_t task = begin; task < std::min(begin + kTasksOfAProcess, tasks); task++) {
      proto::SightLive& live = *report.add_live();
      live.set_task(static_cast<uint32_t>(task - begin + 1));
      live.set_task_root(true);
      live.set_trace(7);
      live.set_span(task + 1);
      live.set_parent(1'000'000);
      live.set_state(task == stuck ? 57 : 1 + static_cast<uint32_t>(random() % 8) * 50);
      live.set_age_ns(20'000'000'000);
      live.set_still_ns(20'000'000'000);
      live.set_progress(task == stuck ? 9 : 10);
      if (waiting) wait_in_tree(live, task);
    }
    (void)processes.accept(std::move(report), TimePoint(1h));
  }
  return processes.snapshot(TimePoint(1h), 0, {});
}

/// The counts of each task, which together are more than a report has room for: as a task's record of its own.
std::vector<Standing> many_counts(size_t tasks, size_t stuck) {
  const auto edges = program();
  std::mt19937_64 random(2);
  std::vector<Standing> standing(tasks);
  for (size_t i = 0; i < tasks; i++) {
    standing[i].task = static_cast<uint32_t>(i);
    standing[i].trace = 7;
    standing[i].role = "worker";
    standing[i].state = i == stuck ? 57 : 1 + random() % 8 * 50;
    standing[i].counts.reserve(edges.size());
    for (const auto& [from, to] : edges)
      standing[i].add(from, to, i == stuck && to <= from ? 9 : 10);
    standing[i].seal();
  }
  return standing;
}

void aggregate(benchmark::State& state) {
  const auto standing = many_counts(static_cast<size_t>(state.range(0)), 4'321);
  for (auto _ : state) {
    const GlobalModel model = global_model(standing);
    benchmark::DoNotOptimize(model.markov.size());
  }
}

void analyse(benchmark::State& state) {
  const auto standing = many_counts(static_cast<size_t>(state.range(0)), 4'321);
  const bool text_form = state.range(1) != 0;
  GlobalModel model = global_model(standing);
  model.entries = {model.markov.find(1)};
  for (auto _ : state) {
    const DependenceGraph graph = text_form ? prodometer(standing, model) : without_targets(standing, model);
    const auto least = least_progressed(graph);
    if (least != std::vector<uint32_t>{4'321}) state.SkipWithError("another task is the least progressed");
  }
}

void diagnose_snapshot(benchmark::State& state) {
  const model::Snapshot snapshot = many_tasks(static_cast<size_t>(state.range(0)), 4'321);
  for (auto _ : state) {
    const auto verdicts = Engine({.rounds = 1}).diagnose(snapshot);
    if (verdicts.size() != 1 || verdicts[0].server() != "server 67")
      state.SkipWithError("another server is blamed");
  }
}

void diagnose_waiting_tasks(benchmark::State& state) {
  const model::Snapshot snapshot = many_tasks(static_cast<size_t>(state.range(0)), 0, /*waiting=*/true);
  for (auto _ : state) {
    const auto verdicts = Engine({.rounds = 1}).diagnose(snapshot);
    if (verdicts.size() != 1 || verdicts[0].server() != "server 0" ||
        verdicts[0].waiters() != static_cast<uint32_t>(state.range(0)) - 1)
      state.SkipWithError("another server is blamed, or not all wait for it");
  }
}

void merge_models(benchmark::State& state) {
  std::vector<model::WorkerModel> models(static_cast<size_t>(state.range(0)));
  for (size_t i = 0; i < models.size(); i++)
    for (const auto& [from, to] : program())
      models[i].add(from, to, Duration(1'000 * (i + 1)));
  for (auto _ : state) {
    model::WorkerModel all;
    for (const model::WorkerModel& each : models)
      all.merge(each);
    benchmark::DoNotOptimize(all.edges().size());
  }
}

void loops_of_many_ways(benchmark::State& state) {
  constexpr uint32_t kDiamonds = 20;
  Successors graph(3 * kDiamonds + 1);
  for (uint32_t i = 0; i < kDiamonds; i++) {
    graph[3 * i] = {3 * i + 1, 3 * i + 2};
    graph[3 * i + 1] = graph[3 * i + 2] = {3 * i + 3};
  }
  graph[3 * kDiamonds] = {0};
  for (auto _ : state)
    if (natural_loops(graph, {0}).size() != 1) state.SkipWithError("not one loop");
}

BENCHMARK(aggregate)->ArgName("tasks")->Arg(1'000)->Arg(5'832)->Arg(16'384)->Unit(benchmark::kMillisecond);
BENCHMARK(analyse)
    ->ArgNames({"tasks", "text"})
    ->ArgsProduct({{5'832, 16'384}, {0, 1}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(diagnose_snapshot)->ArgName("tasks")->Arg(5'832)->Arg(16'384)->Unit(benchmark::kMillisecond);
BENCHMARK(diagnose_waiting_tasks)->ArgName("tasks")->Arg(5'832)->Arg(16'384)->Unit(benchmark::kMillisecond);
BENCHMARK(merge_models)->ArgName("workers")->Arg(1'000)->Unit(benchmark::kMillisecond);
BENCHMARK(loops_of_many_ways)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kintsugi::progress

BENCHMARK_MAIN();
