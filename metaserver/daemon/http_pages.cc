#include "metaserver/daemon/http_pages.h"

#include "monitoring/sight/pages.h"

namespace kintsugi::metaserver {
namespace {

constexpr size_t kEventsShown = 1000;
constexpr size_t kRepairsShown = 100;

std::string describe_repair(const proto::RepairRecord& record) {
  return fmt::format("{}:{} -> server {}  {} slice {}  {} attempt {}  {:.3f} s  {}  {}\n", record.stripe_id(),
                     record.index(), record.destination(), record.shape(), record.slice_bytes(),
                     record.outcome(), record.attempt(), record.timing().seconds(), record.reason(),
                     record.detail());
}

std::string describe_repairs(MetaDaemon& daemon) {
  const proto::RepairStatusResponse status = daemon.repairs().status();
  std::string text = fmt::format(
      "queued {}  delayed {}  unrepairable {}  done {}  failed {}  bytes {}\n\nrunning\n", status.queued(),
      status.delayed(), status.unrepairable(), status.done(), status.failed(), status.bytes_repaired());
  for (const proto::RepairRecord& record : status.running())
    text += describe_repair(record);
  text += "\nnewest first\n";
  for (const proto::RepairRecord& record : daemon.repairs().history(kRepairsShown))
    text += describe_repair(record);
  return text;
}

}  // namespace

void add_metrics(metrics::Metrics& metrics, MetaDaemon& daemon, const sight::Recorder& recorder) {
  const auto gauge = [&](const std::string& name, const std::string& help, auto read) {
    metrics.gauge("kintsugi_" + name, help, {},
                  [&daemon, read] { return static_cast<double>(read(daemon)); });
  };
  gauge("files", "Files in the namespace", [](MetaDaemon& d) { return d.metaserver().stats().files; });
  gauge("stripes", "Stripes", [](MetaDaemon& d) { return d.metaserver().stats().stripes; });
  gauge("servers_alive", "Chunkservers that heartbeat",
        [](MetaDaemon& d) { return d.metaserver().stats().servers_alive; });
  gauge("servers_dead", "Chunkservers that are dead",
        [](MetaDaemon& d) { return d.metaserver().stats().servers_dead; });
  gauge("chunks_lost", "Chunks reported missing or corrupt",
        [](MetaDaemon& d) { return d.metaserver().stats().lost_chunks; });
  gauge("repairs_queued", "Chunks that wait for repair",
        [](MetaDaemon& d) { return d.repairs().status().queued(); });
  gauge("repairs_delayed", "Chunks whose server may return",
        [](MetaDaemon& d) { return d.repairs().status().delayed(); });
  gauge("repairs_running", "Repairs under way",
        [](MetaDaemon& d) { return d.repairs().status().running_size(); });
  gauge("chunks_unrepairable", "Chunks with too few others to rebuild them",
        [](MetaDaemon& d) { return d.repairs().status().unrepairable(); });
  const auto counter = [&](const std::string& name, const std::string& help, auto read) {
    metrics.counter("kintsugi_" + name, help, {},
                    [&daemon, read] { return static_cast<double>(read(daemon)); });
  };
  counter("repairs_done_total", "Repairs committed",
          [](MetaDaemon& d) { return d.repairs().status().done(); });
  counter("repairs_failed_total", "Attempts that failed",
          [](MetaDaemon& d) { return d.repairs().status().failed(); });
  counter("repaired_bytes_total", "Bytes of repaired chunks",
          [](MetaDaemon& d) { return d.repairs().status().bytes_repaired(); });
  metrics.add(sight::make_collectable(recorder));
  metrics.add_process_metrics();
}

void add_pages(http::HttpServer& http, const metrics::Metrics& metrics, MetaDaemon& daemon,
               const sight::Recorder& recorder, std::string settings) {
  http.handle("/healthz", [](std::string_view) { return http::Response{.body = "ok\n"}; });
  http.handle("/metrics", [&metrics](std::string_view) {
    return http::Response{.content_type = "text/plain; version=0.0.4", .body = metrics.text()};
  });
  http.handle("/debug/paths",
              [&recorder](std::string_view) { return http::Response{.body = render_paths(recorder)}; });
  http.handle("/debug/events", [&recorder](std::string_view) {
    return http::Response{.content_type = "application/json",
                          .body = render_events_json(recorder, kEventsShown)};
  });
  http.handle("/debug/repairs",
              [&daemon](std::string_view) { return http::Response{.body = describe_repairs(daemon)}; });
  http.handle("/debug/settings", [settings = std::move(settings)](std::string_view) {
    return http::Response{.body = settings};
  });
}

}  // namespace kintsugi::metaserver
