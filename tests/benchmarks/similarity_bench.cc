// How long it takes to find the odd ones among many workers of one role, and what a comparison of two normal distributions costs in closed form and by the
// text's table. Workers are perturbations of what chunkservers did in the windows of KINTSUGI_SNAPSHOTS, a directory in which a monitor kept snapshots, or
// else of one made-up model.
#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "common/base/draws.h"
#include "monitoring/daemon/window_times.h"
#include "tests/benchmarks/recorded_windows.h"
#include "tests/texts/compression.h"
#include "tests/texts/population.h"

namespace kintsugi::similarity {
namespace {

constexpr uint64_t kStates = 330;

/// More than 800 transitions: chains with branches and ways back, as code has them. What all workers have in common, of which each is a perturbation.
Model made_up_model() {
  Draws draws(1);
  std::vector<Edge> edges;
  const auto add = [&](uint64_t from, uint64_t to, double count) {
    const double deviation = draws.uniform(0.3, 1.5);
    edges.push_back({.transition = {from, to},
                     .count = count,
                     .mean = draws.uniform(8, 24),
                     .squares = deviation * deviation * count});
  };
  for (uint64_t state = 1; state <= kStates; ++state) {
    const double count = std::floor(std::exp2(draws.uniform(4, 12)));
    add(state, state % kStates + 1, count);
    if (state % 4 == 0)
      for (int branch = 0; branch < 6; ++branch)
        add(state, 1 + draws.below(kStates), std::max(5.0, std::floor(count / 4)));
  }
  return Model(std::move(edges));
}

/// The models that workers are perturbations of: at most 64 recorded ones, or the made-up one.
std::vector<Model> common_models() {
  constexpr size_t kMost = 64;
  const char* snapshots = std::getenv("KINTSUGI_SNAPSHOTS");
  if (snapshots == nullptr) return {made_up_model()};
  std::vector<Model> models;
  (void)for_each_recorded({snapshots}, [&](int64_t, const auto& ended) {
    for (const RecordedWindow& window : ended)
      if (models.size() < kMost) models.push_back(monitoring::log_times_of(window.did));
  });
  if (models.empty()) throw std::runtime_error("KINTSUGI_SNAPSHOTS holds no windows");
  return models;
}

Model common_model() {
  return common_models().front();
}

/// Counts drawn anew, times moved by a twentieth of an octave, as the runs of one program differ. The busiest edge of the planted one takes four times as
/// long.
Model perturbed(const Model& common, Draws& draws, bool planted) {
  std::vector<Edge> edges(common.edges().begin(), common.edges().end());
  for (Edge& edge : edges) {
    const double variance = edge.variance();
    edge.count = std::max(1.0, std::floor(edge.count + std::sqrt(edge.count) * draws.normal()));
    edge.mean += 0.05 * draws.normal();
    edge.squares = variance * edge.count;
  }
  if (planted) std::ranges::max_element(edges, {}, &Edge::count)->mean += 2;
  return Model(std::move(edges));
}

void find_the_odd_one(benchmark::State& state) {
  const auto tasks = static_cast<size_t>(state.range(0));
  const bool compressed = state.range(1) != 0;
  const std::vector<Model> common = common_models();
  const size_t planted = tasks / 3;
  Draws draws(2);
  std::vector<Model> models;
  for (size_t i = 0; i < tasks; ++i)
    models.push_back(perturbed(common[i % common.size()], draws, i == planted));
  size_t found = 0, edges = 0, bytes = 0;
  for (auto _ : state) {
    std::vector<Model> smaller;
    if (compressed) {
      const Compression plan = Compression::plan(models);
      for (const Model& model : models)
        smaller.push_back(plan.apply(model));
    }
    const std::vector<Model>& compared = compressed ? smaller : models;
    Population population(transitions_of(compared), tasks);
    for (const Model& model : compared)
      population.add(model);
    const auto odd = oddest(population, 5, 7);
    found += odd.front() == planted ? 1 : 0;
    edges = population.edges().size();
    bytes = population.bytes();
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["found"] =
      benchmark::Counter(static_cast<double>(found), benchmark::Counter::kAvgIterations);
  state.counters["edges_before"] = static_cast<double>(transitions_of(common).size());
  state.counters["edges"] = static_cast<double>(edges);
  state.counters["population_MiB"] = static_cast<double>(bytes) / (1 << 20);
  state.counters["process_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}
BENCHMARK(find_the_odd_one)
    ->ArgNames({"tasks", "compressed"})
    ->ArgsProduct({{1000, 5832, 16384}, {0, 1}})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

std::vector<std::pair<Normal, Normal>> pairs() {
  Draws draws(3);
  std::vector<std::pair<Normal, Normal>> out;
  for (int i = 0; i < 4096; ++i) {
    const Normal a{draws.uniform(8, 24), draws.uniform(0.1, 2)};
    out.push_back({a, {a.mean + 0.5 * draws.normal(), draws.uniform(0.1, 2)}});
  }
  return out;
}

void closed_form(benchmark::State& state) {
  const auto all = pairs();
  size_t i = 0;
  for (auto _ : state) {
    const auto& [a, b] = all[i++ % all.size()];
    benchmark::DoNotOptimize(normalised_l2(a, b));
  }
}
BENCHMARK(closed_form);

void table(benchmark::State& state) {
  const L2Table lookup;
  const auto all = pairs();
  size_t i = 0;
  for (auto _ : state) {
    const auto& [a, b] = all[i++ % all.size()];
    benchmark::DoNotOptimize(lookup(a, b));
  }
}
BENCHMARK(table);

void one_pair_of_models(benchmark::State& state) {
  const Model common = common_model();
  Draws draws(4);
  const Model a = perturbed(common, draws, false), b = perturbed(common, draws, false);
  for (auto _ : state)
    benchmark::DoNotOptimize(difference(a, b, Form::kOurs));
}
BENCHMARK(one_pair_of_models)->Unit(benchmark::kMicrosecond);

void one_pair_of_a_population(benchmark::State& state) {
  const Model common = common_model();
  Draws draws(4);
  Population population(transitions_of(std::vector<Model>{common}), 2);
  for (int i = 0; i < 2; ++i)
    population.add(perturbed(common, draws, false));
  for (auto _ : state)
    benchmark::DoNotOptimize(population.distance(0, 1));
}
BENCHMARK(one_pair_of_a_population)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kintsugi::similarity

BENCHMARK_MAIN();
