#include "monitoring/daemon/metrics_recorder.h"

#include <mutex>

#include <unistd.h>

#include "common/log/log.h"
#include "monitoring/daemon/metrics_api.h"
#include "monitoring/daemon/unlike_api.h"

namespace kintsugi::monitoring {

MetricsRecorder::MetricsRecorder(const runtime::Runtime& runtime, const Monitor& monitor,
                                 MetricsOptions options)
    : monitor_(monitor),
      options_(options),
      directory_(metrics_directory(monitor.options().data_dir)),
      here_(this_machine()),
      process_(runtime.random.next() | 1),
      sampler_({.keep = {.directory = directory_,
                         .most_bytes = options.most_bytes,
                         .most_time = options.most_time},
                .period = options.interval,
                .host = here_.id,
                .tls = options.tls}),
      tasks_(runtime) {}

void MetricsRecorder::start() {
  if (!options_.record) return;
  if (const Status started = sampler_.start(); !started.ok()) {
    log::warning("metrics are not recorded: {}", started.to_string());
    return;
  }
  tasks_.spawn(look_for_processes());
}

asio::awaitable<void> MetricsRecorder::stop() {
  co_await tasks_.stop();
  sampler_.stop();
}

recording::Target MetricsRecorder::itself() const {
  recording::Target target{.name = "monitor", .process = process_, .build_id = {}, .pid = 0, .page = {}};
  target.pid = static_cast<uint32_t>(::getpid());
  target.is_local = true;
  if (const auto page = runtime::Endpoint::parse(monitor_.options().http_address)) target.page = *page;
  return target;
}

asio::awaitable<void> MetricsRecorder::look_for_processes() {
  do {
    std::vector<recording::Target> targets = sampled_processes(monitor_.snapshot(), here_);
    targets.push_back(itself());
    sampler_.set_targets(std::move(targets));
  } while (co_await tasks_.sleep_for(kLookForProcesses));
}

namespace {

http::Response answer(std::string_view text, const MetricsRecorder& recorder, const runtime::Clock& clock,
                      const std::stop_token& stop) {
  const auto query = MetricsQuery::parse(text);
  if (!query) return {.status = 400, .body = query.error().message() + "\n"};
  MetricsSource source{.directory = recorder.directory(),
                       .period_s = to_seconds(recorder.options().interval),
                       .records = recorder.options().record,
                       .state = recorder.state().recording};
  const int64_t now_ns = clock.wall_now().time_since_epoch().count();
  http::Response response{.content_type = "application/json", .body = {}};
  response.late_body = [query = *query, source = std::move(source), now_ns, stop] {
    return metrics_document(query, source, now_ns, stop);
  };
  return response;
}

void add_metrics(metrics::Metrics& metrics, const MetricsRecorder& recorder) {
  const auto counter = [&](const char* name, const char* help, auto read) {
    metrics.counter(name, help, {},
                    [&recorder, read] { return static_cast<double>(read(recorder.state())); });
  };
  const auto gauge = [&](const char* name, const char* help, auto read) {
    metrics.gauge(name, help, {}, [&recorder, read] { return static_cast<double>(read(recorder.state())); });
  };
  using State = recording::SamplerState;
  counter("kintsugi_monitor_metric_rows_total", "Rows of metrics that were recorded.",
          [](const State& state) { return state.recording.rows; });
  counter("kintsugi_monitor_metric_rows_missed_total",
          "Rows that came too late, or that the disk did not take.",
          [](const State& state) { return state.recording.missed_rows; });
  counter("kintsugi_monitor_sampler_cpu_seconds_total", "Processor time of the thread that samples metrics.",
          [](const State& state) { return to_seconds(state.processor_time); });
  gauge("kintsugi_monitor_metric_bytes", "Bytes of recorded metrics on disk.",
        [](const State& state) { return state.recording.bytes; });
  gauge("kintsugi_monitor_metrics_recorded", "Metrics in a row, of all processes.",
        [](const State& state) { return state.recording.metrics; });
  gauge("kintsugi_monitor_metrics_stopped",
        "1 while no metrics are recorded because the disk does not take them.",
        [](const State& state) { return state.recording.stopped.empty() ? 0 : 1; });
}

}  // namespace

void add_pages(http::HttpServer& http, metrics::Metrics& metrics, const MetricsRecorder& recorder,
               const runtime::Clock& clock) {
  add_metrics(metrics, recorder);
  const std::stop_token stop = http.stopping();
  http.handle("/api/v1/metrics", [&recorder, &clock, stop](std::string_view query) {
    return answer(query, recorder, clock, stop);
  });
  // One comparison at a time: it takes seconds, and plots and /metrics are written by the same threads.
  const auto compares = std::make_shared<std::mutex>();
  http.handle("/api/v1/unlike", [&recorder, &clock, compares, stop](std::string_view text) {
    const auto query = MetricsQuery::parse(text);
    if (!query) return http::Response{.status = 400, .body = query.error().message() + "\n"};
    if (query->since_s > kLongestUnlike)
      return http::Response{.status = 400, .body = "since: at most six hours\n"};
    http::Response response{.content_type = "application/json", .body = {}};
    response.late_body = [query = *query, directory = recorder.directory(), compares, stop,
                          now_ns = clock.wall_now().time_since_epoch().count()]() -> std::string {
      const std::unique_lock alone(*compares, std::try_to_lock);
      if (!alone) return "{\"problem\":\"another comparison is running; ask again\"}\n";
      return unlike_document(query, directory, now_ns, stop);
    };
    return response;
  });
}

}  // namespace kintsugi::monitoring
