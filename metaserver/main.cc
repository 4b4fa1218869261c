// kintsugi-metaserver: settings, the store, the daemon, its HTTP pages, and a clean stop on SIGTERM and
// SIGINT.
#include <csignal>
#include <cstdio>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>

#include "common/base/last_words.h"
#include "common/config/config.h"
#include "common/http/http_server.h"
#include "common/log/log.h"
#include "common/metrics/metrics.h"
#include "common/proto/names.h"
#include "common/runtime/production/production_runtime.h"
#include "common/runtime/run.h"
#include "metaserver/daemon/http_pages.h"
#include "metaserver/daemon/meta_daemon.h"
#include "metaserver/kv/rocksdb_store.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::metaserver {
namespace {

struct Settings {
  std::string listen = "127.0.0.1:9600";
  std::string http_listen;
  std::string data_dir, secret_file, log_file;
  std::string repair_schedule = "joint", repair_shape = "auto";
  MetaDaemonOptions daemon{.repairs = {.delay = 15min}};

  config::Settings describe() {
    MetaServerOptions& meta = daemon.metaserver;
    repair_manager::Options& repairs = daemon.repairs;
    config::Settings settings{"kintsugi-metaserver",
                              "Keeps the namespace and the stripe map, and repairs what is lost."};
    settings.add("listen", &listen, "host:port for RPCs");
    settings.add("http_listen", &http_listen, "host:port for /metrics, /healthz and /debug; empty: none");
    settings.add("data_dir", &data_dir, "where metadata is kept");
    settings.add("secret_file", &secret_file, "the cluster secret");
    settings.add("log_file", &log_file, "appended to; empty: stderr");
    settings.add("policy", &meta.default_policy, "of the root directory, when the cluster is made");
    settings.add_bytes("chunk_bytes", &meta.chunk_bytes, "largest chunk", 1 << 20, 256 << 20);
    settings.add("heartbeat_interval", &meta.heartbeat_interval, "between two heartbeats of a chunkserver",
                 10ms, 1min);
    settings.add("suspect_after", &meta.suspect_after, "without a heartbeat", 10ms, 1h);
    settings.add("dead_after", &meta.dead_after, "without a heartbeat", 20ms, 24h);
    settings.add("repair.delay", &repairs.delay,
                 "from a server's death to the repair of stripes with two spare chunks or more", 0s, 24h * 7);
    settings.add("repair.max_per_server", &repairs.max_per_server,
                 "repairs in which a server helps, and that it receives", 1u, 64u);
    settings.add("repair.schedule", &repair_schedule,
                 "of many repairs: joint (all links equally loaded) or greedy (m-PPR)");
    settings.add("repair.shape", &repair_shape,
                 "of repair trees: auto, star, staggered, ppr, chain or weighted");
    settings.require("data_dir");
    settings.require("secret_file");
    return settings;
  }
};

/// Ok when SIGTERM or SIGINT came. An error when `store` failed: what was read of it since may be lost, and
/// only a new start shows what is really there.
asio::awaitable<Status> wait_for_end(asio::io_context& io, KeyValueStore& store) {
  asio::signal_set signals(io, SIGTERM, SIGINT);
  Status failure;
  store.on_failure = [&](const Status& why) {
    failure = why.with_context("the metadata store failed, nothing can be acknowledged any more");
    signals.cancel();
  };
  const Status so_far = co_await store.durable();
  if (failure.ok() && !so_far.ok()) failure = so_far;
  if (failure.ok()) {
    boost::system::error_code cancelled;
    const int signal = co_await signals.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    if (failure.ok()) log::info("stopping: signal {}", signal);
  }
  store.on_failure = [](const Status&) {};
  co_return failure;
}

asio::awaitable<Status> start_http(http::HttpServer& http, const std::string& listen) {
  if (listen.empty()) co_return Status{};
  KINTSUGI_CO_ASSIGN(const runtime::Endpoint endpoint, runtime::Endpoint::parse(listen));
  co_return http.start(endpoint).with_context("http_listen");
}

asio::awaitable<Status> serve(runtime::ProductionRuntime& production, MetaDaemon& daemon,
                              KeyValueStore& store, http::HttpServer& http, const std::string& http_listen) {
  Status status = co_await daemon.start();
  if (status.ok()) status = co_await start_http(http, http_listen);
  if (status.ok()) status = co_await wait_for_end(production.io(), store);
  http.stop();
  co_await daemon.stop();
  co_return status;
}

Status run(Settings& options, const std::string& effective) {
  MetaServerOptions& meta = options.daemon.metaserver;
  KINTSUGI_ASSIGN(meta.listen, runtime::Endpoint::parse(options.listen));
  repair_manager::Options& repairs = options.daemon.repairs;
  KINTSUGI_ASSIGN(repairs.schedule, repair_manager::parse_schedule(options.repair_schedule));
  KINTSUGI_ASSIGN(repairs.shape, proto::parse_shape(options.repair_shape));
  KINTSUGI_ASSIGN(const rpc::Secret secret, rpc::Secret::load(options.secret_file));
  if (!options.log_file.empty()) log::set_file(options.log_file);
  log::info("kintsugi-metaserver starts with\n{}", effective);

  runtime::ProductionRuntime production;
  const runtime::Runtime& runtime = production.runtime();
  KINTSUGI_ASSIGN(std::unique_ptr<RocksDbStore> store,
                  RocksDbStore::open(runtime.executor, options.data_dir));
  sight::Recorder recorder(runtime.clock, runtime.random.next());
  meta.recorder = &recorder;
  Status status;
  {
    MetaDaemon daemon(runtime, options.daemon, secret, *store);
    metrics::Metrics metrics;
    add_metrics(metrics, daemon, recorder);
    http::HttpServer http(runtime.executor);
    add_pages(http, metrics, daemon, recorder, effective);
    status = runtime::run_on(production, serve(production, daemon, *store, http, options.http_listen));
  }
  runtime::run_on(production, store->close());
  return status;
}

int main_of(int argc, char** argv) {
  Settings options;
  config::Settings settings = options.describe();
  settings.parse_or_exit(argc, argv);
  const Status status = run(options, settings.effective());
  if (status.ok()) {
    log::info("stopped");
    return 0;
  }
  log::error("kintsugi-metaserver ends: {}", status.to_string());
  std::fprintf(stderr, "kintsugi-metaserver: %s\n", status.to_string().c_str());
  return 1;
}

}  // namespace
}  // namespace kintsugi::metaserver

int main(int argc, char** argv) {
  kintsugi::install_last_words("kintsugi-metaserver");
  return kintsugi::metaserver::main_of(argc, argv);
}
