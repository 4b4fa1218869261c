#include "repair_manager/daemon/http_pages.h"

#include "repair_manager/daemon/what_if_page.h"
#include "repair_manager/manager/pages.h"

namespace kintsugi::repair_manager {
namespace {

std::string describe(RepairDaemon& daemon) {
  const std::string tie = daemon.feed().joined() ? fmt::format("{} of {} shards are ours\n",
                                                               daemon.feed().shards(), kRepairShards)
                                                 : "the metaserver does not answer\n";
  const CompactionCounts compaction = daemon.compactor().counts();
  return tie + describe_repairs(daemon.repairs()) +
         fmt::format(
             "\ncompaction: files waiting {}  done {}  failed {}  bytes {}  windows lost to writers {}\n",
             compaction.waiting, compaction.files, compaction.failed, compaction.bytes, compaction.lost);
}

void add_compaction_metrics(metrics::Metrics& metrics, RepairDaemon& daemon) {
  metrics.gauge("kintsugi_compactions_waiting", "Files that wait for their compaction", {},
                [&daemon] { return static_cast<double>(daemon.compactor().counts().waiting); });
  const auto counter = [&](const std::string& name, const std::string& help,
                           uint64_t CompactionCounts::* count) {
    metrics.counter("kintsugi_" + name, help, {},
                    [&daemon, count] { return static_cast<double>(daemon.compactor().counts().*count); });
  };
  counter("compactions_done_total", "Files whose compaction is finished", &CompactionCounts::files);
  counter("compactions_failed_total", "Files that compaction gave up", &CompactionCounts::failed);
  counter("compacted_bytes_total", "Bytes that compaction has rewritten", &CompactionCounts::bytes);
  counter("compaction_windows_lost_total", "Parts of files that a user changed while compaction rewrote them",
          &CompactionCounts::lost);
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
  add_compaction_metrics(metrics, daemon);
  http.handle("/debug/repairs",
              [&daemon](std::string_view) { return http::Response{.body = describe(daemon)}; });
  add_what_if_page(
      http, {.servers = [&daemon] { return daemon.servers(); },
             .stripes = [&daemon](std::vector<uint64_t> servers,
                                  auto tell) { daemon.find_stripes(std::move(servers), std::move(tell)); }});
}

}  // namespace kintsugi::repair_manager
