#include "metaserver/daemon/http_pages.h"

#include <unistd.h>

#include "common/base/repair_shard.h"
#include "metaserver/cluster/scrape_targets.h"
#include "metaserver/daemon/maintenance_metric.h"

namespace kintsugi::metaserver {
namespace {

std::string describe_managers(const RepairCoordinator& coordinator) {
  const RepairShards& shards = coordinator.shards();
  if (shards.managers().empty()) return coordinator.nobody_repairs() + "\n";
  std::string text;
  for (const auto& [id, manager] : shards.managers())
    text += fmt::format(
        "repair manager {} at {} has {} of {} shards{}\n", id, manager.address, shards.shards_of(id).size(),
        kRepairShards,
        manager.http_address.empty() ? "" : ": http://" + manager.http_address + "/debug/repairs");
  return text;
}

/// A metaserver that listens at all addresses is reached by the name of its machine.
std::string host_of_machine() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

/// All daemons that have registered, and this one.
std::vector<KnownDaemon> known_daemons(MetaDaemon& daemon, const OwnPages& own) {
  std::vector<KnownDaemon> known{{"metaserver", "metaserver", own.listen.to_string(), own.http_address}};
  if (const auto monitor = daemon.metaserver().monitor())
    known.push_back({.daemon = "monitor",
                     .instance = "monitor",
                     .address = monitor->address,
                     .http_address = monitor->http_address,
                     .forgotten_when_silent = true});
  for (const auto& [id, manager] : daemon.coordinator().shards().managers())
    known.push_back({.daemon = "repair-manager",
                     .instance = "repair-manager@" + manager.address,
                     .address = manager.address,
                     .http_address = manager.http_address,
                     .forgotten_when_silent = true});
  const ServerRegistry& servers = daemon.metaserver().state().servers.registry;
  for (const auto& [id, server] : servers.servers())
    known.push_back({.daemon = "chunkserver",
                     .instance = servers.name_of(id),
                     .address = server.stored.address(),
                     .http_address = server.stored.http_address(),
                     .rack = server.stored.rack()});
  return known;
}

/// Totals of the cluster. They cost a read of the store, and are asked once for each page.
void add_totals(metrics::Metrics& metrics, MetaDaemon& daemon) {
  const auto now = std::make_shared<MetaServerStats>();
  metrics.before_reading([now, &daemon] { *now = daemon.metaserver().stats(); });
  const auto gauge = [&](const std::string& name, const std::string& help, auto read) {
    metrics.gauge("kintsugi_" + name, help, {}, [now, read] { return static_cast<double>(read(*now)); });
  };
  gauge("files", "Files in the namespace", [](const MetaServerStats& stats) { return stats.files; });
  gauge("stripes", "Stripes", [](const MetaServerStats& stats) { return stats.stripes; });
  gauge("servers_alive", "Chunkservers that heartbeat",
        [](const MetaServerStats& stats) { return stats.servers_alive; });
  gauge("servers_dead", "Chunkservers that are dead",
        [](const MetaServerStats& stats) { return stats.servers_dead; });
  gauge("servers_in_maintenance", "Chunkservers that operators said may be away",
        [](const MetaServerStats& stats) { return stats.servers_in_maintenance; });
  gauge("servers_awaited", "Chunkservers that are dead and in maintenance",
        [](const MetaServerStats& stats) { return stats.servers_awaited; });
  gauge("chunks_lost", "Chunks reported missing or corrupt",
        [](const MetaServerStats& stats) { return stats.lost_chunks; });
  gauge("chunks_missing", "Chunks that cannot be read now, as counted in the background",
        [](const MetaServerStats& stats) { return stats.health.missing_chunks(); });
  gauge("stripes_degraded", "Stripes that lack a chunk, or more",
        [](const MetaServerStats& stats) { return stats.health.degraded(); });
  gauge("stripes_without_spare", "Degraded stripes that cannot be read after one more loss",
        [](const MetaServerStats& stats) { return stats.health.without_spare(); });
  gauge("stripes_unreadable", "Degraded stripes of which too few chunks are left to read them",
        [](const MetaServerStats& stats) { return stats.health.unreadable(); });
  gauge("quarantined_chunks", "Chunks that no file names and that may not be garbage",
        [](const MetaServerStats& stats) { return stats.quarantined_chunks; });
  gauge("metadata_in_doubt", "1 while the metadata is older than chunks beside it and nothing is deleted",
        [](const MetaServerStats& stats) { return stats.in_doubt ? 1 : 0; });
}

void add_metrics(metrics::Metrics& metrics, MetaDaemon& daemon) {
  const auto gauge = [&](const std::string& name, const std::string& help, auto read) {
    metrics.gauge("kintsugi_" + name, help, {},
                  [&daemon, read] { return static_cast<double>(read(daemon)); });
  };
  metrics.info("kintsugi_server_info", "Which daemon this is.",
               [] { return metrics::Labels{{"kind", "metaserver"}, {"name", "metaserver"}}; });
  add_totals(metrics, daemon);
  metrics.add(maintenance_metric(daemon.metaserver().state().servers.registry));
  gauge("servers_not_reported", "Chunkservers that have yet to say which of their chunks they have",
        [](MetaDaemon& d) { return d.metaserver().state().chunks.block_reports.not_reported().size(); });
  constexpr const char* kConnections = "Open connections for calls and streams, that others opened.";
  metrics.gauge("kintsugi_rpc_connections", kConnections, {{"side", "server"}},
                [&daemon] { return static_cast<double>(daemon.metaserver().connections()); });
  gauge("repair_managers", "Repair managers that are registered; without any nothing is repaired",
        [](MetaDaemon& d) { return d.coordinator().shards().managers().size(); });
  gauge("repair_limit_bytes_per_second", "The cluster's limit of repairs at each server, each way; 0: none",
        [](MetaDaemon& d) { return d.metaserver().state().servers.repair_limit.bytes_per_second(); });
  gauge("files_to_compact", "Files whose bytes lie badly and that no repair manager has taken yet",
        [](MetaDaemon& d) { return d.metaserver().state().repairs.compactions.waiting(); });
  // UINT64_MAX where the file system has no limit.
  gauge("metaserver_disk_free_bytes", "Bytes that are free on the metaserver's own disk",
        [](MetaDaemon& d) { return d.metaserver().state().store.room.space().free_bytes; });
  gauge("metaserver_disk_free_inodes", "Inodes that are free on the metaserver's own disk",
        [](MetaDaemon& d) { return d.metaserver().state().store.room.space().free_inodes; });
  gauge("metaserver_disk_full",
        "1 while the metaserver takes nothing new because its own disk is nearly full",
        [](MetaDaemon& d) { return d.metaserver().state().store.room.check().ok() ? 0 : 1; });
}

}  // namespace

void add_pages(http::HttpServer& http, metrics::Metrics& metrics, MetaDaemon& daemon,
               const runtime::Clock& clock, OwnPages own) {
  add_metrics(metrics, daemon);
  http.handle("/debug/repairs", [&daemon](std::string_view) {
    return http::Response{.body = describe_managers(daemon.coordinator())};
  });
  if (own.listen.is_wildcard()) own.listen.host = host_of_machine();
  const auto targets = std::make_shared<ScrapeTargets>(clock, own.over_tls);
  http.handle("/sd", [&daemon, targets, own = std::move(own)](std::string_view) {
    return http::Response{.content_type = "application/json",
                          .body = targets->page(known_daemons(daemon, own))};
  });
}

}  // namespace kintsugi::metaserver
