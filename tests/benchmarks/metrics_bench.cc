// What the analyses of metrics cost: ORION over traces of some minutes, and a step of AUGURY, by the number of metrics.
#include <benchmark/benchmark.h>

#include "monitoring/metrics/augury/augury.h"
#include "monitoring/metrics/orion/as_printed.h"
#include "monitoring/metrics/orion/orion.h"
#include "tests/metrics/trace_rig.h"
#include "tests/texts/metrics/augury_as_printed.h"

namespace kintsugi {
namespace {

using metric_trace::Series;

/// Metrics of several healthy processes side by side as one process: a tenth follows the load of each.
metric_trace::Trace many_metrics(uint64_t seed, size_t metrics, size_t rows) {
  std::vector<metric_trace::HealthyProcess> parts;
  std::vector<std::string> names;
  for (size_t i = 0; names.size() < metrics; ++i) {
    parts.emplace_back(seed * 1000 + i);
    for (const std::string& name : metric_trace::HealthyProcess::names())
      if (names.size() < metrics) names.push_back(name + "_" + std::to_string(i));
  }
  return metric_trace::gauges(names, rows, [&](size_t) {
    std::vector<double> out;
    for (auto& part : parts)
      for (const double value : part.next())
        if (out.size() < metrics) out.push_back(value);
    return out;
  });
}

/// The same with regions of which some executions end in each row.
metric_trace::Trace with_regions(metric_trace::Trace trace, uint64_t seed) {
  constexpr uint32_t kRegions = 30;
  Draws draws(seed);
  for (uint32_t region = 0; region < kRegions; ++region)
    trace.header.regions.push_back({"region_" + std::to_string(region), 0});
  for (auto& row : trace.rows)
    for (uint32_t region = 0; region < kRegions; ++region)
      if (const auto ended = static_cast<float>(draws.below(4)); ended > 0)
        row.activity.push_back({.region = region, .open = 0, .ended = ended});
  return trace;
}

/// 10 minutes of healthy rows and 5 of failed ones at 10 Hz, all window sizes.
void localise(benchmark::State& state) {
  const auto metrics = static_cast<size_t>(state.range(0));
  const auto healthy = with_regions(many_metrics(1, metrics, 6000), 3),
             now = with_regions(many_metrics(2, metrics, 3000), 4);
  for (auto _ : state)
    benchmark::DoNotOptimize(orion::localise(healthy, now));
}
BENCHMARK(localise)->Arg(60)->Arg(400)->Unit(benchmark::kMillisecond)->Iterations(1);

/// The same in the text's form.
void localise_as_printed(benchmark::State& state) {
  const auto metrics = static_cast<size_t>(state.range(0));
  const Series healthy = metric_trace::series_of(many_metrics(1, metrics, 6000), 0);
  const Series now = metric_trace::series_of(many_metrics(2, metrics, 3000), 0);
  const std::vector<size_t> columns = metric_trace::prepare(healthy).columns();
  for (auto _ : state)
    benchmark::DoNotOptimize(orion::metrics_as_printed(healthy, now, columns));
}
BENCHMARK(localise_as_printed)->Arg(60)->Arg(400)->Unit(benchmark::kMillisecond)->Iterations(1);

/// The models and windows of one process from an hour of rows.
void train(benchmark::State& state) {
  const Series healthy =
      metric_trace::series_of(many_metrics(1, static_cast<size_t>(state.range(0)), 3600), 0);
  for (auto _ : state)
    benchmark::DoNotOptimize(augury::Augury::learn(healthy, {}));
}
BENCHMARK(train)->Arg(46)->Unit(benchmark::kSecond)->Iterations(1);

/// One row more.
void step(benchmark::State& state) {
  const auto metrics = static_cast<size_t>(state.range(0));
  const Series healthy = metric_trace::series_of(many_metrics(1, metrics, 1500), 0);
  augury::Augury augury = *augury::Augury::learn(healthy, {});
  size_t row = 0;
  for (size_t i = 0; i < augury::kWindow; ++i)
    augury.step(healthy.t_ns[i], healthy.values.row(static_cast<Eigen::Index>(i)));
  for (auto _ : state) {
    const size_t at = ++row % healthy.rows();
    benchmark::DoNotOptimize(
        augury.step(healthy.t_ns[at], healthy.values.row(static_cast<Eigen::Index>(at))));
  }
}
BENCHMARK(step)->Arg(46)->Arg(200)->Unit(benchmark::kMillisecond);

/// The distance to the nearest of 3,183 healthy windows, as in the text.
void step_as_printed(benchmark::State& state) {
  const auto metrics = static_cast<size_t>(state.range(0));
  const Series healthy = metric_trace::series_of(many_metrics(1, metrics, 25 * 3183 + 75), 0);
  std::vector<size_t> columns(metrics);
  for (size_t i = 0; i < metrics; ++i)
    columns[i] = i;
  // Training compares all pairs of windows: with every 800th only.
  const auto sphere = augury::Sphere::learn(healthy, columns, nullptr, 800);
  std::vector<metric_trace::PairVector> vectors;
  for (const size_t begin : metric_trace::window_begins(healthy.segments, augury::kWindow, 25))
    vectors.push_back(metric_trace::correlations(
        healthy.values.middleRows(static_cast<Eigen::Index>(begin), augury::kWindow)));
  size_t at = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(augury::nearest_distance(vectors[++at % vectors.size()], vectors));
  state.counters["windows"] = static_cast<double>(vectors.size());
  state.counters["of_training"] = static_cast<double>(sphere->size());
}
BENCHMARK(step_as_printed)->Arg(46)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kintsugi

BENCHMARK_MAIN();
