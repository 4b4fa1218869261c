#include "chunkserver/service/pages.h"

#include "monitoring/sight/pages.h"
#include "monitoring/sight/request_metrics.h"

namespace kintsugi::chunkserver {
namespace {

constexpr size_t kHottestShown = 100;

void add_space_metrics(metrics::Metrics& metrics, ChunkStore& store) {
  metrics.gauge("kintsugi_chunkserver_chunks", "Chunks stored.", {},
                [&store] { return double(store.chunks()); });
  metrics.gauge("kintsugi_chunkserver_stored_bytes", "Bytes of all chunks.", {},
                [&store] { return double(store.stored_bytes()); });
  metrics.gauge("kintsugi_chunkserver_free_bytes", "Free bytes of the disks that work.", {},
                [&store] { return double(store.known_space().free_bytes); });
  metrics.gauge("kintsugi_chunkserver_total_bytes", "Size of the disks that work.", {},
                [&store] { return double(store.known_space().total_bytes); });
  metrics.gauge("kintsugi_chunkserver_failed_disks", "Disks that were dropped.", {},
                [&store] { return double(store.known_space().failed_disks); });
  metrics.counter("kintsugi_chunkserver_corrupt_chunks_total", "Chunks found corrupt.", {},
                  [&store] { return double(store.counters().corrupt_chunks); });
  metrics.counter("kintsugi_chunkserver_committed_chunks_total", "Chunks made durable.", {},
                  [&store] { return double(store.counters().chunks_committed); });
  metrics.counter("kintsugi_chunkserver_removed_chunks_total", "Chunks deleted.", {},
                  [&store] { return double(store.counters().chunks_removed); });
}

/// The reports of the disks, of which each page asks once.
struct DisksNow {
  explicit DisksNow(const ChunkStore& store) : store(store) { ask(); }
  void ask() {
    reports = store.disk_reports();
    busy = store.disk_busy_times();
    under_way = store.disk_calls_under_way();
  }
  const ChunkStore& store;
  std::vector<DiskReport> reports;
  std::vector<Duration> busy;
  std::vector<size_t> under_way;
};

/// Disks are told apart by their directories.
void add_disk_metrics(metrics::Metrics& metrics, ChunkStore& store) {
  const auto now = std::make_shared<DisksNow>(store);
  metrics.before_reading([now] { now->ask(); });
  for (size_t i = 0; i < now->reports.size(); ++i) {
    const metrics::Labels disk{{"disk", now->reports[i].path}};
    const auto gauge = [&](const char* name, const char* help, auto read) {
      metrics.gauge(name, help, disk, [now, i, read] { return static_cast<double>(read(now->reports[i])); });
    };
    gauge("kintsugi_disk_health", "0: well, 1: slow, 2: hung, 3: read-only, 4: failed.",
          [](const DiskReport& report) { return report.condition; });
    gauge("kintsugi_disk_oldest_call_seconds", "Age of the oldest call that has not returned.",
          [](const DiskReport& report) { return to_seconds(report.oldest_call); });
    gauge("kintsugi_disk_chunks", "Chunks on the disk.",
          [](const DiskReport& report) { return report.chunks; });
    gauge("kintsugi_disk_quarantined_files", "Damaged files kept for people.",
          [](const DiskReport& report) { return report.quarantined_files; });
    gauge("kintsugi_disk_quarantined_bytes", "Bytes of damaged files kept for people.",
          [](const DiskReport& report) { return report.quarantined_bytes; });
    const std::string help = "Calls that the disk answered with an input/output error.";
    metrics.counter("kintsugi_disk_errors_total", help, {{"disk", now->reports[i].path}, {"call", "read"}},
                    [now, i] { return double(now->reports[i].read_errors); });
    metrics.counter("kintsugi_disk_errors_total", help, {{"disk", now->reports[i].path}, {"call", "write"}},
                    [now, i] { return double(now->reports[i].write_errors); });
    metrics.gauge("kintsugi_disk_inflight", "Reads, writes and syncs that run or wait for their turn.", disk,
                  [now, i] { return double(now->under_way[i]); });
    metrics.counter("kintsugi_disk_busy_seconds_total",
                    "Time during which at least one of those was under way.", disk,
                    [now, i] { return to_seconds(now->busy[i]); });
  }
}

void add_cache_metrics(metrics::Metrics& metrics, ChunkCache& cache) {
  const std::vector<std::tuple<std::string, std::string, const uint64_t*>> reads{
      {"user", "hit", &cache.counters().hits},
      {"user", "miss", &cache.counters().misses},
      {"background", "hit", &cache.counters().background_hits},
      {"background", "miss", &cache.counters().background_misses}};
  for (const auto& [reader, outcome, count] : reads) {
    metrics.counter("kintsugi_chunkserver_cache_blocks_total", "Blocks of 64 KiB that were asked for.",
                    {{"reader", reader}, {"outcome", outcome}}, [count = count] { return double(*count); });
  }
  metrics.counter("kintsugi_chunkserver_cache_hit_bytes_total", "Bytes users read from memory.", {},
                  [&cache] { return double(cache.counters().hit_bytes); });
  metrics.counter("kintsugi_chunkserver_cache_evicted_blocks_total", "Blocks that gave way to others.", {},
                  [&cache] { return double(cache.counters().evicted); });
  metrics.gauge("kintsugi_chunkserver_cache_memory_bytes", "Memory the cache of chunks takes.", {},
                [&cache] { return double(cache.memory_bytes()); });
  metrics.gauge("kintsugi_chunkserver_cache_capacity_bytes", "Memory the cache of chunks may take.", {},
                [&cache] { return double(cache.capacity_bytes()); });
  metrics.gauge("kintsugi_chunkserver_cached_chunks", "Chunks that are nearly all in memory.", {},
                [&cache] { return double(cache.cached_chunks()); });
}

void add_link_metrics(metrics::Metrics& metrics, ChunkServer& server) {
  const LinkRates& rates = server.link_rates();
  metrics.gauge("kintsugi_chunkserver_link_bytes_per_second", "Rate of the link; 0: not known.",
                {{"direction", "up"}}, [&rates] { return double(rates.up()); });
  metrics.gauge("kintsugi_chunkserver_link_bytes_per_second", "Rate of the link; 0: not known.",
                {{"direction", "down"}}, [&rates] { return double(rates.down()); });
  const LinkTraffic& traffic = server.traffic();
  metrics.counter("kintsugi_chunkserver_link_bytes_total", "Bytes over the link.", {{"direction", "up"}},
                  [&traffic] { return double(traffic.bytes_sent); });
  metrics.counter("kintsugi_chunkserver_link_bytes_total", "Bytes over the link.", {{"direction", "down"}},
                  [&traffic] { return double(traffic.bytes_received); });
}

std::string describe_cache(ChunkServer& server) {
  ChunkCache& cache = server.store().cache();
  const CacheCounters& counters = cache.counters();
  std::string text = fmt::format(
      "memory {} of {} bytes, {} chunks\nusers: {} blocks from memory, {} from disk\n"
      "repairs: {} blocks from memory, {} from disk\nadmitted {} evicted {} blocks\n\nhottest chunks (reads, "
      "halved every minute)\n",
      cache.memory_bytes(), cache.capacity_bytes(), cache.cached_chunks(), counters.hits, counters.misses,
      counters.background_hits, counters.background_misses, counters.admitted, counters.evicted);
  for (const auto& [id, heat] : server.store().usage().hottest(kHottestShown))
    text += fmt::format("{:10.3f}  {}{}\n", heat, id, cache.cached(id) ? "  cached" : "");
  return text;
}

std::string describe_link(const LinkRates& rates) {
  std::string text = fmt::format("up {} bytes/s, down {} bytes/s, {}\n", rates.up(), rates.down(),
                                 rates.configured() ? "as configured" : "measured");
  for (const LinkRates::Probe& probe : rates.probes())
    text += fmt::format("probe: up {:.0f} down {:.0f}\n", probe.up, probe.down);
  return text;
}

void add_metrics(metrics::Metrics& metrics, ChunkServer& server) {
  const ServiceCounters& counters = server.counters();
  metrics.info("kintsugi_server_info",
               "Which server this is: its number in the cluster, once it has one, and its name.", [&server] {
                 metrics::Labels labels{{"kind", "chunkserver"}, {"name", server.name()}};
                 if (const uint32_t number = server.store().identity().number; number != 0)
                   labels["server"] = std::to_string(number);
                 return labels;
               });
  add_space_metrics(metrics, server.store());
  add_disk_metrics(metrics, server.store());
  add_cache_metrics(metrics, server.store().cache());
  add_link_metrics(metrics, server);
  metrics.gauge("kintsugi_chunkserver_clock_difference_seconds",
                "This machine's wall clock less the metaserver's.", {},
                [&server] { return to_seconds(server.clock_ahead()); });
  metrics.counter("kintsugi_chunkserver_read_bytes_total", "Chunk bytes sent to readers.", {},
                  [&counters] { return double(counters.bytes_read); });
  metrics.counter("kintsugi_chunkserver_written_bytes_total", "Chunk bytes received from writers.", {},
                  [&counters] { return double(counters.bytes_written); });
  const std::vector<std::pair<std::string, const uint64_t*>> calls{{"read", &counters.reads},
                                                                   {"write", &counters.writes},
                                                                   {"partial_sum", &counters.partial_sums},
                                                                   {"repair", &counters.repairs},
                                                                   {"verify", &counters.verifications}};
  for (const auto& [name, count] : calls) {
    metrics.counter("kintsugi_chunkserver_calls_total", "Calls that began.", {{"call", name}},
                    [count = count] { return double(*count); });
  }
  metrics.counter("kintsugi_chunkserver_verified_chunks_total", "Chunks read to see whether they are whole.",
                  {}, [&counters] { return double(counters.chunks_verified); });
  metrics.counter("kintsugi_chunkserver_verified_bytes_total", "Bytes read for that.", {},
                  [&counters] { return double(counters.bytes_verified); });
  metrics.counter("kintsugi_chunkserver_failed_calls_total", "Calls that ended with an error.", {},
                  [&counters] { return double(counters.failures); });
  metrics.counter("kintsugi_pacer_wait_seconds_total",
                  "Time for which repairs waited for users and for their rate.", {},
                  [&server] { return to_seconds(server.pacer_waits()); });
  metrics.gauge("kintsugi_pacer_cluster_limit_bytes_per_second",
                "The cluster's limit of repairs, as the metaserver told it last; 0: none.", {},
                [&server] { return double(server.cluster_repair_limit()); });
  constexpr const char* kConnections =
      "Open connections for calls and streams: that others, or this server, opened.";
  metrics.gauge("kintsugi_rpc_connections", kConnections, {{"side", "server"}},
                [&server] { return double(server.connections_in()); });
  metrics.gauge("kintsugi_rpc_connections", kConnections, {{"side", "client"}},
                [&server] { return double(server.connections_out()); });
  metrics.gauge("kintsugi_chunkserver_repairs_running", "Partial sums and repairs under way.", {},
                [&counters] { return double(counters.repairs_running); });
  metrics.gauge("kintsugi_chunkserver_free_buffers", "Transfer buffers that are free.", {},
                [&server] { return double(server.buffers().free()); });
}

}  // namespace

void add_pages(http::HttpServer& http, metrics::Metrics& metrics, ChunkServer& server) {
  add_metrics(metrics, server);
  http.handle("/debug/cache",
              [&server](std::string_view) { return http::Response{.body = describe_cache(server)}; });
  http.handle("/debug/link", [&server](std::string_view) {
    return http::Response{.body = describe_link(server.link_rates())};
  });
  sight::add_pages(http, metrics, server.recorder());
  sight::add_request_metrics(
      metrics, server.recorder(),
      {{"read", {"ReadChunk", "ReadSmallChunk"}}, {"write", {"WriteChunk", "WriteSmallChunk"}}});
}

}  // namespace kintsugi::chunkserver
