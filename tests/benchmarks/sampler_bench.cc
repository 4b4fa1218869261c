// What the sampler of metrics costs: kintsugi-monitor's thread for many daemons, and one page on a daemon's own thread.
//   sampler_bench [--daemons 12] [--metrics 100] [--hz 10] [--seconds 20]
// Prints the share of a processor that the sampler's thread takes, the same of the threads that answer, and how long one
// page holds the thread of a daemon. The daemons are threads of this process; /proc is read as it is for real ones.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "common/http/http_server.h"
#include "common/metrics/metrics.h"
#include "common/runtime/production/run.h"
#include "monitoring/recording/sampler.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/pages.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi {
namespace {

constexpr sight::Site kOpen{"bench.open"};

/// Regions of a daemon that executions end in, each in as many calling contexts.
constexpr size_t kRegions = 30, kContexts = 5;
const std::vector<sight::Site>& regions() {
  static const std::vector<sight::Site> sites = [] {
    static std::vector<std::string> names;
    for (size_t i = 0; i < kRegions; ++i)
      names.push_back(fmt::format("bench.region_{}", i));
    std::vector<sight::Site> out;
    for (const std::string& name : names)
      out.push_back(sight::Site{name.c_str()});
    return out;
  }();
  return sites;
}

Duration processor_time(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// The pages of a daemon with so many metrics and some open regions, on a thread of its own.
class BenchDaemon {
 public:
  BenchDaemon(size_t metrics, size_t open) : recorder_(loop_.runtime().clock, 1), http_(loop_.runtime()) {
    for (size_t i = 0; i < metrics; ++i)
      metrics_.counter("kintsugi_bench_total", "Count.", {{"number", std::to_string(i)}},
                       [this, i] { return values_ += 1.25 * static_cast<double>(i); });
    sight::add_pages(http_, metrics_, recorder_);
    http_.handle("/debug/sample/names", [this](std::string_view) {
      return http::Response{.body = fmt::format("# pid {}\n", ::getpid()) + metrics_.sample_names()};
    });
    http_.handle("/debug/sample",
                 [this](std::string_view) { return http::Response{.body = metrics_.sample_values()}; });
    if (!http_.start({"127.0.0.1", 0}).ok()) std::abort();
    thread_.emplace(loop_);
    on_loop([this, open] {
      for (size_t i = 0; i < open; ++i)
        open_.push_back(std::make_unique<sight::Task>(recorder_.root_context(), kOpen));
      for (size_t i = 0; i < kContexts; ++i) {
        const sight::Module outer{recorder_.root_context(), regions()[i]};
        for (const sight::Site& site : regions())
          const sight::Module inner{outer.context(), site};
      }
    });
  }
  ~BenchDaemon() {
    on_loop([this] {
      open_.clear();
      http_.stop();
    });
  }
  recording::Target target(size_t number) const {
    return {.name = fmt::format("daemon-{}", number),
            .process = 1,
            .build_id = "",
            .pid = static_cast<uint32_t>(::getpid()),
            .is_local = true,
            .page = http_.local_endpoint()};
  }
  /// Processor time of the loop's thread until now.
  Duration used() {
    Duration used{};
    on_loop([&used] { used = processor_time(CLOCK_THREAD_CPUTIME_ID); });
    return used;
  }
  /// Of one page, without HTTP.
  Duration page() {
    Duration took{};
    on_loop([&] {
      constexpr int kTimes = 1000;
      const Duration began = processor_time(CLOCK_THREAD_CPUTIME_ID);
      for (int i = 0; i < kTimes; ++i)
        bytes_ += metrics_.sample_values().size();
      took = (processor_time(CLOCK_THREAD_CPUTIME_ID) - began) / kTimes;
    });
    return took;
  }

 private:
  template <class Function>
  void on_loop(Function function) {
    runtime::run_on(loop_, [](Function& run) -> asio::awaitable<void> {
      run();
      co_return;
    }(function));
  }

  runtime::ProductionRuntime loop_;
  sight::Recorder recorder_;
  metrics::Metrics metrics_;
  http::HttpServer http_;
  double values_ = 0;
  size_t bytes_ = 0;
  std::vector<std::unique_ptr<sight::Task>> open_;
  std::optional<runtime::LoopThread> thread_;
};

size_t argument(int argc, char** argv, std::string_view name, size_t usual) {
  for (int i = 1; i + 1 < argc; ++i)
    if (argv[i] == name) return std::strtoul(argv[i + 1], nullptr, 10);
  return usual;
}

int bench(int argc, char** argv) {
  const size_t count = argument(argc, argv, "--daemons", 12), hz = argument(argc, argv, "--hz", 10),
               seconds = argument(argc, argv, "--seconds", 20),
               metrics = argument(argc, argv, "--metrics", 100), open = argument(argc, argv, "--open", 50);
  const std::string directory =
      (std::filesystem::temp_directory_path() / fmt::format("sampler_bench.{}", ::getpid())).string();
  std::vector<std::unique_ptr<BenchDaemon>> daemons;
  std::vector<recording::Target> targets;
  for (size_t i = 0; i < count; ++i) {
    daemons.push_back(std::make_unique<BenchDaemon>(metrics, open));
    targets.push_back(daemons.back()->target(i));
  }
  fmt::print("one page of {} metrics and {} open regions: {:.1f} us of the daemon's thread, without HTTP\n",
             metrics, open, to_seconds(daemons[0]->page()) * 1e6);
  recording::Sampler sampler({.keep = {.directory = directory},
                              .period = std::chrono::nanoseconds(1'000'000'000 / hz),
                              .host = "bench"});
  if (!sampler.start().ok()) return 1;
  sampler.set_targets(targets);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const auto used = [&] {
    Duration sum{};
    for (const auto& daemon : daemons)
      sum += daemon->used();
    return sum;
  };
  const recording::SamplerState before = sampler.state();
  const Duration answered = used();
  const auto began = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  const recording::SamplerState after = sampler.state();
  const Duration took = std::chrono::steady_clock::now() - began;
  const Duration answers = used() - answered;
  sampler.stop();
  const auto rows = static_cast<double>(after.recording.rows - before.recording.rows);
  fmt::print("{} daemons at {} Hz, {} columns: {} rows ({} missed), {:.1f} KiB each\n", count, hz,
             after.recording.metrics, rows, after.recording.missed_rows - before.recording.missed_rows,
             static_cast<double>(after.recording.bytes - before.recording.bytes) / rows / 1024);
  fmt::print("the sampler's thread: {:.2f} % of a processor\n",
             100 * to_seconds(after.processor_time - before.processor_time) / to_seconds(took));
  fmt::print("a daemon's thread: {:.3f} % of a processor, {:.1f} us a sample with HTTP\n",
             100 * to_seconds(answers) / to_seconds(took) / static_cast<double>(count),
             to_seconds(answers) / rows / static_cast<double>(count) * 1e6);
  std::filesystem::remove_all(directory);
  return 0;
}

}  // namespace
}  // namespace kintsugi

int main(int argc, char** argv) {
  return kintsugi::bench(argc, argv);
}
