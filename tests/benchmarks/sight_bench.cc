// What an annotation costs: a region that is entered and left, a wait, a call's span with its peer.
//   sight_bench --benchmark_repetitions=5
#include <benchmark/benchmark.h>

#include "common/runtime/production/production_runtime.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/pages.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::sight {
namespace {

constexpr Site kOuter{"bench.outer", {"bytes"}};
constexpr Site kInner{"bench.inner", {"bytes"}, {"seconds"}};
constexpr Site kOther{"bench.other"};

struct Rig {
  runtime::ProductionRuntime production;
  Recorder recorder{production.runtime().clock, 1};
  Module outer{recorder.root_context(), kOuter, {1}};

  Rig() {
    // Until the processor's counter is calibrated, times are the clock's.
    const TimePoint until = recorder.now() + 50ms;
    while (recorder.now() < until)
      Module{outer.context(), kInner};
  }
};

void enter_and_exit(benchmark::State& state) {
  Rig rig;
  for (auto _ : state) {
    Module module{rig.outer.context(), kInner, {4096}};
    benchmark::DoNotOptimize(module.context());
  }
}
BENCHMARK(enter_and_exit);

void enter_and_exit_of_a_task(benchmark::State& state) {
  Rig rig;
  for (auto _ : state) {
    Task task{rig.outer.context(), kOther};
    benchmark::DoNotOptimize(task.context());
  }
}
BENCHMARK(enter_and_exit_of_a_task);

[[gnu::noinline]] void serve_call(const Context& caller, bool often) {
  const runtime::Span task{caller, kOther, {.task = true, .often = often}, std::source_location::current()};
  Module module{task.context(), kInner};
  benchmark::DoNotOptimize(module.context());
}

/// A served call that never waits, with a region in it; the argument says whether it is one of very many alike.
void serve(benchmark::State& state) {
  Rig rig;
  Context caller = rig.outer.context();
  caller.live = {};
  for (auto _ : state) {
    ++caller.trace.trace_id;
    serve_call(caller, state.range(0) != 0);
  }
}
BENCHMARK(serve)->ArgName("often")->Arg(0)->Arg(1);

void wait(benchmark::State& state) {
  Rig rig;
  const uint64_t target = runtime::named_target(rig.outer.context(), "disk", true);
  for (auto _ : state) {
    Wait wait{rig.outer.context(), state.range(0) != 0 ? WaitKind::kDisk : WaitKind::kResource, target};
    benchmark::DoNotOptimize(&wait);
  }
}
BENCHMARK(wait)->ArgName("disk")->Arg(0)->Arg(1);

/// A scrape of /metrics holds the loop for this long with so many calling contexts; another thread writes the text.
void scrape(benchmark::State& state) {
  Rig rig;
  http::HttpServer http(rig.production.runtime());
  metrics::Metrics metrics;
  add_pages(http, metrics, rig.recorder);
  std::vector<std::string> names;
  std::vector<Site> sites;
  for (int i = 0; i < 40; ++i)
    names.push_back("bench.site" + std::to_string(i));
  for (const std::string& name : names)
    sites.push_back({name});
  for (int i = 0; i < state.range(0); ++i) {
    Module first{rig.outer.context(), sites[i % 40]};
    Module second{first.context(), sites[i / 40 % 40]};
  }
  for (auto _ : state)
    benchmark::DoNotOptimize(metrics.read());
  state.counters["contexts"] = double(rig.recorder.totals().size());
}
BENCHMARK(scrape)->Arg(1000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kintsugi::sight

BENCHMARK_MAIN();
