// What the activity log costs a region of code, and how fast its lines are read.
//   activity_bench --benchmark_repetitions=5
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "common/runtime/activity_log.h"
#include "common/runtime/production/production_runtime.h"
#include "monitoring/metrics/blacksheep/states.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi {
namespace {

constexpr sight::Site kLogged{"bench.logged"}, kOther{"bench.other"};
constexpr std::array<std::string_view, 1> kNames{kLogged.name};

/// A wall clock that goes on by `step` whenever it is read: the log's limit is one of a second.
class SteppingClock final : public runtime::Clock {
 public:
  explicit SteppingClock(Duration step) : step_(step) {}
  TimePoint now() const override { return {}; }
  WallTime wall_now() const override { return wall_ += step_; }
  runtime::TimerId call_at(TimePoint, std::function<void()>) override { return runtime::TimerId::kNone; }
  bool cancel(runtime::TimerId) override { return false; }

 private:
  const Duration step_;
  mutable WallTime wall_{Duration(1'795'336'597'123'456'789)};
};

enum Log : int64_t {
  kNone,          ///< there is no activity log
  kOtherRegions,  ///< there is one, which does not tell of the region
  kAboveLimit,    ///< it tells of it, and more of them happen than it takes
  kEachOne,       ///< each execution is in the log; its lines are taken as a file would
};

/// A region that is entered and left.
void enter_and_exit(benchmark::State& state) {
  const auto kind = static_cast<Log>(state.range(0));
  runtime::ProductionRuntime production;
  sight::Recorder recorder(production.runtime().clock, 1);
  const SteppingClock clock(kind == kEachOne ? 1ms : 0ms);
  runtime::ActivityLog log(clock, "bench", kNames);
  if (kind != kNone) runtime::process_activity_log = &log;
  const Context root = recorder.root_context();
  const sight::Site& site = kind >= kAboveLimit ? kLogged : kOther;
  size_t executions = 0;
  for (auto _ : state) {
    {
      sight::Task task{root, site};
      benchmark::DoNotOptimize(task.context());
    }
    if (kind == kEachOne && ++executions % 100 == 0) benchmark::DoNotOptimize(log.take());
  }
  runtime::process_activity_log = nullptr;
}
BENCHMARK(enter_and_exit)->ArgName("log")->DenseRange(kNone, kEachOne);

/// Lines as a chunkserver writes them, with four states and eight executions at a time.
void read_lines(benchmark::State& state) {
  constexpr std::array<std::string_view, 4> kStates{"chunkserver.read_chunk", "chunkserver.write_chunk",
                                                    "chunkserver.commit", "partial_sum.child_sum"};
  std::string text;
  constexpr int64_t kExecutions = 100'000;
  const auto line = [&](int64_t micros, std::string_view verb, int64_t execution, std::string_view rest) {
    text += fmt::format("2026-11-22T08:{:02}:{:02}.{:06}+0000 activity {} {} {:x}{}\n", micros / 60'000'000,
                        micros / 1'000'000 % 60, micros % 1'000'000, verb,
                        kStates[static_cast<size_t>(execution) % 4],
                        mix_bits(static_cast<uint64_t>(execution)), rest);
  };
  for (int64_t i = 0; i < kExecutions; ++i) {
    line(i * 10'000, "start", i, "");
    if (i >= 8) line(i * 10'000 + 5'000, "stop", i - 8, " ok");
  }
  int64_t lines = 0;
  for (auto _ : state) {
    blacksheep::StateReader reader;
    reader.feed(text);
    lines += static_cast<int64_t>(reader.states().lines);
  }
  state.SetItemsProcessed(lines);
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * static_cast<int64_t>(state.iterations()));
}
BENCHMARK(read_lines)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kintsugi

BENCHMARK_MAIN();
