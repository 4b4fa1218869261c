// kintsugi-repair-manager: settings, the daemon, its HTTP pages, and a clean stop on SIGTERM and SIGINT.
#include <csignal>
#include <cstdio>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>

#include "common/base/last_words.h"
#include "common/config/config.h"
#include "common/http/http_server.h"
#include "common/log/log.h"
#include "common/metrics/metrics.h"
#include "common/runtime/production/production_runtime.h"
#include "common/runtime/run.h"
#include "monitoring/sight/recorder.h"
#include "repair_manager/daemon/http_pages.h"
#include "repair_manager/daemon/repair_daemon.h"

namespace kintsugi::repair_manager {
namespace {

struct Settings {
  std::string listen = "127.0.0.1:0";
  std::string http_listen, advertise, metaserver, secret_file, log_file;

  config::Settings describe() {
    config::Settings settings{"kintsugi-repair-manager",
                              "Repairs what is lost of a part of the stripes, instead of the metaserver."};
    settings.add("listen", &listen, "host:port for the metaserver; port 0 picks one");
    settings.add("http_listen", &http_listen, "host:port for /metrics, /healthz and /debug; empty: none");
    settings.add("advertise", &advertise,
                 "host the metaserver reaches this daemon by (default: that of listen)");
    settings.add("metaserver", &metaserver, "host:port of the metaserver");
    settings.add("secret_file", &secret_file, "the cluster secret");
    settings.add("log_file", &log_file, "appended to; empty: stderr");
    settings.require("metaserver");
    settings.require("secret_file");
    return settings;
  }
};

asio::awaitable<Status> serve(runtime::ProductionRuntime& production, RepairDaemon& daemon) {
  Status status = daemon.start();
  if (status.ok()) {
    asio::signal_set signals(production.io(), SIGTERM, SIGINT);
    boost::system::error_code ignored;
    const int signal = co_await signals.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    log::info("stopping: signal {}", signal);
  }
  co_await daemon.stop();
  co_return status;
}

Status run(const Settings& settings, const std::string& effective) {
  RepairDaemonOptions options{.advertise = settings.advertise};
  KINTSUGI_ASSIGN(options.listen, runtime::Endpoint::parse(settings.listen));
  KINTSUGI_ASSIGN(options.metaserver, runtime::Endpoint::parse(settings.metaserver));
  const bool wildcard = options.listen.host == "0.0.0.0" || options.listen.host == "::";
  if (wildcard && options.advertise.empty()) {
    return {Code::kInvalidArgument,
            "listen is a wildcard address: set advertise to the name the metaserver reaches"};
  }
  KINTSUGI_ASSIGN(const rpc::Secret secret, rpc::Secret::load(settings.secret_file));
  if (!settings.log_file.empty()) log::set_file(settings.log_file);
  log::info("kintsugi-repair-manager starts with\n{}", effective);

  runtime::ProductionRuntime production;
  const runtime::Runtime& runtime = production.runtime();
  sight::Recorder recorder(runtime.clock, runtime.random.next());
  options.recorder = &recorder;
  http::HttpServer http(runtime.executor);
  options.http_address = settings.http_listen;
  RepairDaemon daemon(runtime, options, secret);
  metrics::Metrics metrics;
  add_metrics(metrics, daemon, recorder);
  add_pages(http, metrics, daemon, recorder, effective);
  if (!settings.http_listen.empty()) {
    KINTSUGI_ASSIGN(const runtime::Endpoint endpoint, runtime::Endpoint::parse(settings.http_listen));
    KINTSUGI_TRY(http.start(endpoint).with_context("http_listen"));
  }
  const Status status = runtime::run_on(production, serve(production, daemon));
  http.stop();
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
  log::error("kintsugi-repair-manager ends: {}", status.to_string());
  std::fprintf(stderr, "kintsugi-repair-manager: %s\n", status.to_string().c_str());
  return 1;
}

}  // namespace
}  // namespace kintsugi::repair_manager

int main(int argc, char** argv) {
  kintsugi::install_last_words("kintsugi-repair-manager");
  return kintsugi::repair_manager::main_of(argc, argv);
}
