#include "chunkserver/service/pages.h"

#include "monitoring/sight/pages.h"

namespace kintsugi::chunkserver {
namespace {

constexpr size_t kEventsShown = 1000;

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

}  // namespace

void add_metrics(metrics::Metrics& metrics, ChunkServer& server) {
  const ServiceCounters& counters = server.counters();
  add_space_metrics(metrics, server.store());
  metrics.counter("kintsugi_chunkserver_read_bytes_total", "Chunk bytes sent to readers.", {},
                  [&counters] { return double(counters.bytes_read); });
  metrics.counter("kintsugi_chunkserver_written_bytes_total", "Chunk bytes received from writers.", {},
                  [&counters] { return double(counters.bytes_written); });
  const std::vector<std::pair<std::string, const uint64_t*>> calls{{"read", &counters.reads},
                                                                   {"write", &counters.writes},
                                                                   {"partial_sum", &counters.partial_sums},
                                                                   {"repair", &counters.repairs}};
  for (const auto& [name, count] : calls) {
    metrics.counter("kintsugi_chunkserver_calls_total", "Calls that began.", {{"call", name}},
                    [count = count] { return double(*count); });
  }
  metrics.counter("kintsugi_chunkserver_failed_calls_total", "Calls that ended with an error.", {},
                  [&counters] { return double(counters.failures); });
  metrics.gauge("kintsugi_chunkserver_repairs_running", "Partial sums and repairs under way.", {},
                [&counters] { return double(counters.repairs_running); });
  metrics.gauge("kintsugi_chunkserver_free_buffers", "Transfer buffers that are free.", {},
                [&server] { return double(server.buffers().free()); });
  metrics.add(sight::make_collectable(server.recorder()));
  metrics.add_process_metrics();
}

void add_pages(http::HttpServer& http, metrics::Metrics& metrics, ChunkServer& server) {
  http.handle("/metrics", [&metrics](std::string_view) {
    return http::Response{200, "text/plain; version=0.0.4; charset=utf-8", metrics.text()};
  });
  http.handle("/healthz", [&server](std::string_view) {
    if (server.registered()) return http::Response{.body = "ok\n"};
    return http::Response{.status = 503, .body = "not registered with the metaserver\n"};
  });
  http.handle("/debug/paths", [&server](std::string_view) {
    return http::Response{.body = sight::render_paths(server.recorder())};
  });
  http.handle("/debug/events", [&server](std::string_view) {
    return http::Response{200, "application/json",
                          sight::render_events_json(server.recorder(), kEventsShown)};
  });
}

}  // namespace kintsugi::chunkserver
