#include "repair_manager/daemon/http_pages.h"

#include "monitoring/sight/pages.h"
#include "repair_manager/manager/pages.h"

namespace kintsugi::repair_manager {
namespace {

constexpr size_t kEventsShown = 1000;

std::string describe(RepairDaemon& daemon) {
  const std::string tie = daemon.feed().joined() ? fmt::format("{} of {} shards are ours\n",
                                                               daemon.feed().shards(), kRepairShards)
                                                 : "the metaserver does not answer\n";
  return tie + describe_repairs(daemon.repairs());
}

}  // namespace

void add_metrics(metrics::Metrics& metrics, RepairDaemon& daemon, const sight::Recorder& recorder) {
  metrics.gauge("kintsugi_repair_shards", "Shards of the stripes that this manager repairs", {}, [&daemon] {
    return daemon.feed().joined() ? static_cast<double>(daemon.feed().shards()) : 0.0;
  });
  add_repair_metrics(metrics, daemon.repairs());
  metrics.add(sight::make_collectable(recorder));
  metrics.add_process_metrics();
}

void add_pages(http::HttpServer& http, const metrics::Metrics& metrics, RepairDaemon& daemon,
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
              [&daemon](std::string_view) { return http::Response{.body = describe(daemon)}; });
  http.handle("/debug/settings", [settings = std::move(settings)](std::string_view) {
    return http::Response{.body = settings};
  });
}

}  // namespace kintsugi::repair_manager
