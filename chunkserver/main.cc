// kintsugi-chunkserver: stores chunks on local disks and serves them.
#include <ctime>
#include <filesystem>
#include <iostream>

#include <boost/asio/signal_set.hpp>

#include "chunkserver/service/chunkserver.h"
#include "chunkserver/service/pages.h"
#include "common/base/last_words.h"
#include "common/config/config.h"
#include "common/http/http_server.h"
#include "common/log/log.h"
#include "common/metrics/metrics.h"
#include "common/runtime/run.h"

namespace kintsugi::chunkserver {
namespace {

struct DaemonOptions {
  std::string listen = "127.0.0.1:0";
  std::string http_listen = "127.0.0.1:0";
  std::string advertise;
  std::string metaserver;
  std::vector<std::string> disks;
  std::string rack = "default";
  std::string secret_file;
  std::string log_file;
  uint64_t buffer_memory = 64ull << 20;
  uint64_t cache_memory = 256ull << 20;
  uint64_t disk_bandwidth = 0;
  uint64_t link_up = 0, link_down = 0;
  bool link_probe = true;
  uint64_t repair_bandwidth = 0;
};

DaemonOptions parse(int argc, const char* const* argv) {
  DaemonOptions options;
  config::Settings settings{"kintsugi-chunkserver", "Stores chunks on local disks and serves them."};
  settings.add("listen", &options.listen, "host:port for clients and other servers; port 0 picks one");
  settings.add("http_listen", &options.http_listen,
               "host:port for /metrics, /healthz and /debug; port 0 picks one");
  settings.add("advertise", &options.advertise, "host others reach this server by (default: that of listen)");
  settings.add("metaserver", &options.metaserver, "host:port of the metaserver");
  settings.add("disks", &options.disks, "directories to keep chunks in, one for each disk");
  settings.add("rack", &options.rack, "failure domain of this server");
  settings.add("secret_file", &options.secret_file, "file with the cluster secret");
  settings.add("log_file", &options.log_file, "where to log (default: standard error)");
  settings.add_bytes("buffer_memory", &options.buffer_memory, "memory for transfers", 8ull << 20,
                     16ull << 30);
  settings.add_bytes("cache.memory", &options.cache_memory, "memory for chunks that are read often; 0: none",
                     0, 1ull << 40);
  settings.add_bytes("disk.bandwidth", &options.disk_bandwidth,
                     "bytes a second that each disk may read and write; 0: no limit");
  settings.add_bytes("link.up", &options.link_up,
                     "bytes a second that this server's link carries away from it; 0: measured");
  settings.add_bytes("link.down", &options.link_down,
                     "bytes a second that this server's link carries to it; 0: measured");
  settings.add("link.probe", &options.link_probe,
               "measure the link against other servers, at most 8 MiB each way every 10 minutes");
  settings.add_bytes(
      "repair.bandwidth", &options.repair_bandwidth,
      "bytes a second that repairs may send, and receive, at most; 0: what users leave of the link");
  for (const char* key : {"metaserver", "disks", "secret_file"})
    settings.require(key);
  settings.parse_or_exit(argc, argv);
  return options;
}

double cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

Result<Options> server_options(const DaemonOptions& daemon) {
  Options options;
  KINTSUGI_ASSIGN(options.listen, runtime::Endpoint::parse(daemon.listen));
  KINTSUGI_ASSIGN(options.metaserver, runtime::Endpoint::parse(daemon.metaserver));
  const bool wildcard = options.listen.host == "0.0.0.0" || options.listen.host == "::";
  if (wildcard && daemon.advertise.empty()) {
    return Status{Code::kInvalidArgument,
                  "listen is a wildcard address: set advertise to the name others reach"};
  }
  options.advertise = daemon.advertise;
  for (const std::string& disk : daemon.disks)
    options.disks.push_back(std::filesystem::absolute(disk).string());
  options.rack = daemon.rack;
  options.buffer_memory_bytes = daemon.buffer_memory;
  options.cpu_seconds = cpu_seconds;
  options.cache_memory_bytes = daemon.cache_memory;
  options.disk_bytes_per_second = daemon.disk_bandwidth;
  options.link_up_bytes_per_second = daemon.link_up;
  options.link_down_bytes_per_second = daemon.link_down;
  options.probe_links = daemon.link_probe;
  options.repair_bytes_per_second = daemon.repair_bandwidth;
  return options;
}

/// Exit status of a server that was removed from its cluster: nothing is wrong, and nobody should start it
/// again by itself.
constexpr int kExitRemoved = 3;

/// Runs until a signal, or until the metaserver turns the server away.
asio::awaitable<Status> serve(runtime::ProductionRuntime& production, ChunkServer& server, bool& removed) {
  runtime::Event ending(production.runtime());
  bool ended = false;
  Status outcome;
  server.on_refused = [&](Status why) {
    removed = why.code() == Code::kNotFound;
    outcome = std::move(why);
    ended = true;
    ending.notify_all();
  };
  KINTSUGI_CO_TRY(co_await server.start());
  asio::signal_set signals(production.io(), SIGINT, SIGTERM);
  signals.async_wait([&](const boost::system::error_code& error, int signal) {
    if (error) return;
    log::info("signal {}: stopping", signal);
    ended = true;
    ending.notify_all();
  });
  while (!ended)
    co_await ending.wait();
  signals.cancel();
  co_await server.stop();
  log::info("stopped");
  co_return outcome;
}

Status run(const DaemonOptions& daemon, bool& removed) {
  KINTSUGI_ASSIGN(Options options, server_options(daemon));
  KINTSUGI_ASSIGN(const runtime::Endpoint http_listen, runtime::Endpoint::parse(daemon.http_listen));
  KINTSUGI_ASSIGN(const rpc::Secret secret, rpc::Secret::load(daemon.secret_file));
  if (!daemon.log_file.empty()) log::set_file(daemon.log_file);

  runtime::ProductionRuntime production;
  ChunkServer server(production.runtime(), std::move(options), secret);
  production.register_buffers(server.buffers());
  metrics::Metrics metrics;
  add_metrics(metrics, server);
  http::HttpServer http(production.io().get_executor());
  add_pages(http, metrics, server);
  KINTSUGI_TRY(http.start(http_listen));
  server.set_http_address(http.local_endpoint().to_string());
  Status status = runtime::run_on(production, serve(production, server, removed));
  http.stop();
  return status;
}

}  // namespace
}  // namespace kintsugi::chunkserver

int main(int argc, char** argv) {
  using namespace kintsugi;
  install_last_words("kintsugi-chunkserver");
  const chunkserver::DaemonOptions options = chunkserver::parse(argc, argv);
  bool removed = false;
  const Status status = chunkserver::run(options, removed);
  if (status.ok()) return 0;
  std::cerr << "kintsugi-chunkserver: " << status.message() << std::endl;
  if (!options.log_file.empty()) log::error("{}", removed ? status.message() : status.to_string());
  return removed ? chunkserver::kExitRemoved : 1;
}
