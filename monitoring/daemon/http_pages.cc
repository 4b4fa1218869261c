#include "monitoring/daemon/http_pages.h"

#include <fmt/format.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include "common/proto/verdicts.h"
#include "monitoring/daemon/mount_metrics.h"

namespace kintsugi::monitoring {
namespace {

constexpr size_t kMostProcesses = 1000;  ///< processes that the metrics include

/// What stands and who reports: series that come and go.
class MonitorCollectable final : public prometheus::Collectable {
 public:
  explicit MonitorCollectable(const Monitor& monitor) : monitor_(monitor) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    families.push_back(alarms());
    const model::Snapshot snapshot = monitor_.snapshot();
    const auto add = [&](const char* name, const char* help, auto value) {
      prometheus::MetricFamily family{name, help, prometheus::MetricType::Gauge, {}};
      for (const auto& view : snapshot.processes) {
        if (family.metric.size() >= kMostProcesses) break;
        prometheus::ClientMetric metric;
        metric.label = {{"kind", view->last().kind()},
                        {"name", view->display()},
                        {"process", fmt::format("{:016x}", view->process())}};
        metric.gauge.value = value(*view);
        family.metric.push_back(std::move(metric));
      }
      families.push_back(std::move(family));
    };
    add("kintsugi_process_silent_seconds", "Time since the last report of a process.",
        [&](const model::ProcessView& view) { return to_seconds(snapshot.silent(view)); });
    add("kintsugi_process_open_regions", "Regions of code and waits that a process reported as open.",
        [](const model::ProcessView& view) { return static_cast<double>(view.last().live_size()); });
    add("kintsugi_process_loop_stalled_seconds", "Time for which a process's event loop has not turned.",
        [](const model::ProcessView& view) {
          return static_cast<double>(view.last().loop().stalled_ns()) / 1e9;
        });
    return families;
  }

 private:
  prometheus::MetricFamily alarms() const {
    prometheus::MetricFamily family{"kintsugi_alarm",
                                    "Active alarms: for how many seconds each has held up an operation.",
                                    prometheus::MetricType::Gauge,
                                    {}};
    for (const proto::Verdict& verdict : monitor_.alarms().standing()) {
      prometheus::ClientMetric metric;
      metric.label = {{"id", std::to_string(verdict.id())},
                      {"kind", std::string(proto::kind_name(verdict.kind()))},
                      {"server", verdict.server()},
                      {"region", verdict.region()},
                      {"confidence", std::string(proto::confidence_name(verdict.confidence()))},
                      {"masked", verdict.masked() ? "true" : "false"}};
      metric.gauge.value = static_cast<double>(verdict.since_ns()) / 1e9;
      family.metric.push_back(std::move(metric));
    }
    return family;
  }

  const Monitor& monitor_;
};

void add_metrics(metrics::Metrics& metrics, const Monitor& monitor) {
  metrics.info("kintsugi_server_info", "Which daemon this is.", [&monitor] {
    return metrics::Labels{{"kind", "monitor"}, {"name", monitor.endpoint().to_string()}};
  });
  const auto counter = [&](const char* name, const char* help, metrics::Labels labels, auto read) {
    metrics.counter(name, help, std::move(labels),
                    [&monitor, read] { return static_cast<double>(read(monitor)); });
  };
  counter("kintsugi_monitor_alarms_total", "Alarms since the start.", {{"event", "raised"}},
          [](const Monitor& m) { return m.alarms().totals().raised; });
  counter("kintsugi_monitor_alarms_total", "Alarms since the start.", {{"event", "cleared"}},
          [](const Monitor& m) { return m.alarms().totals().cleared; });
  constexpr const char* kReports = "Reports of processes since the start.";
  counter("kintsugi_monitor_reports_total", kReports, {{"outcome", "accepted"}},
          [](const Monitor& m) { return m.intake().counters().accepted; });
  counter("kintsugi_monitor_reports_total", kReports, {{"outcome", "refused"}},
          [](const Monitor& m) { return m.intake().counters().refused; });
  counter("kintsugi_monitor_reports_total", kReports, {{"outcome", "repeated"}},
          [](const Monitor& m) { return m.intake().counters().repeated; });
  counter("kintsugi_monitor_reports_total", kReports, {{"outcome", "too_many"}},
          [](const Monitor& m) { return m.intake().counters().too_many; });
  counter("kintsugi_monitor_report_bytes_total", "Bytes of accepted reports.", {},
          [](const Monitor& m) { return m.intake().counters().bytes; });
  counter("kintsugi_monitor_records_lost_total", "Alarms and snapshots that the disk did not take.", {},
          [](const Monitor& m) { return m.records_given_up(); });
  metrics.gauge("kintsugi_monitor_processes", "Processes that report.", {},
                [&monitor] { return static_cast<double>(monitor.intake().processes().size()); });
  metrics.gauge("kintsugi_monitor_alarms", "Active alarms.", {},
                [&monitor] { return static_cast<double>(monitor.alarms().standing().size()); });
  metrics.gauge("kintsugi_monitor_round_seconds", "Time that the detectors took last.", {},
                [&monitor] { return to_seconds(monitor.last_round()); });
  metrics.gauge("kintsugi_monitor_kept_bytes", "Bytes of alarms and snapshots on disk.", {},
                [&monitor] { return static_cast<double>(monitor.kept_bytes()); });
  metrics.add(std::make_shared<MonitorCollectable>(monitor));
  metrics.add(mount_metrics(monitor));
}

}  // namespace

void add_pages(http::HttpServer& http, metrics::Metrics& metrics, Monitor& monitor, ConsoleApi& api) {
  add_metrics(metrics, monitor);
  for (const ConsoleFile* file = kConsoleFiles; !file->path.empty(); ++file) {
    http.handle(std::string(file->path), [file](std::string_view) {
      return http::Response{.content_type = std::string(file->content_type), .body = std::string(file->body)};
    });
  }
  const auto json = [&](const char* path, auto make) {
    http.handle(path, [&api, make](std::string_view) {
      return http::Response{.content_type = "application/json", .body = make(api)};
    });
  };
  json("/api/v1/overview", [](ConsoleApi& a) { return a.overview(); });
  json("/api/v1/servers", [](ConsoleApi& a) { return a.servers(); });
  json("/api/v1/processes", [](ConsoleApi& a) { return a.processes(); });
  json("/api/v1/alarms", [](ConsoleApi& a) { return a.alarms(); });
  json("/api/v1/repairs", [](ConsoleApi& a) { return a.repairs(); });
  json("/api/v1/names", [](ConsoleApi& a) { return a.names(); });
  json("/api/v1/devices", [](ConsoleApi& a) { return a.devices(); });
  json("/api/v1/regions", [](ConsoleApi& a) { return a.regions(); });
  json("/api/v1/models", [](ConsoleApi& a) { return a.models(); });
}

}  // namespace kintsugi::monitoring
