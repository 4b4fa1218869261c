#include "repair_manager/daemon/http_pages.h"

#include "repair_manager/manager/pages.h"

namespace kintsugi::repair_manager {
namespace {

std::string describe(RepairDaemon& daemon) {
  const std::string tie = daemon.feed().joined() ? fmt::format("{} of {} shards are ours\n",
                                                               daemon.feed().shards(), kRepairShards)
                                                 : "the metaserver does not answer\n";
  return tie + describe_repairs(daemon.repairs());
}

}  // namespace

void add_pages(http::HttpServer& http, metrics::Metrics& metrics, RepairDaemon& daemon) {
  metrics.info("kintsugi_server_info", "Which daemon this is.", [&daemon] {
    return metrics::Labels{{"kind", "repair-manager"}, {"name", daemon.endpoint().to_string()}};
  });
  metrics.gauge("kintsugi_repair_shards", "Shards of the stripes that this manager repairs", {}, [&daemon] {
    return daemon.feed().joined() ? static_cast<double>(daemon.feed().shards()) : 0.0;
  });
  add_repair_metrics(metrics, daemon.repairs());
  http.handle("/debug/repairs",
              [&daemon](std::string_view) { return http::Response{.body = describe(daemon)}; });
}

}  // namespace kintsugi::repair_manager
