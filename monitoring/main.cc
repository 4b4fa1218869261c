// kintsugi-monitor: reports what in a cluster makes no progress, where, and who waits for it; serves the console.
#include <cstring>
#include <filesystem>

#include "common/daemon/daemon.h"
#include "common/daemon/private_directory.h"
#include "common/daemon/revocations.h"
#include "common/http/http_post.h"
#include "common/log/log.h"
#include "monitoring/analysis.h"
#include "monitoring/daemon/actions.h"
#include "monitoring/daemon/foresight.h"
#include "monitoring/daemon/http_pages.h"
#include "monitoring/daemon/metrics_recorder.h"
#include "monitoring/daemon/monitor.h"
#include "monitoring/daemon/what_if_api.h"
#include "monitoring/judge_command.h"
#include "monitoring/metrics_command.h"
#include "monitoring/sight/pages.h"
#include "monitoring/sight/recorder.h"
#include "tracing/agent/signalled.h"

namespace kintsugi::monitoring {
namespace {

void add_settings(daemon::Settings& settings, MetricsOptions& metrics) {
  settings.add("metrics.record", &metrics.record,
               "record the metrics of all daemons that report, for plots and analyses over time");
  settings.add("metrics.interval", &metrics.interval, "time between two rows of metrics", 50ms, 1min);
  settings.add_bytes("metrics.bytes", &metrics.most_bytes,
                     "disk space for metrics; the oldest are removed first", 1 << 20, uint64_t{1} << 40);
  settings.add("metrics.time", &metrics.most_time, "how long metrics are kept", 1min, 10000h);
}

void add_settings(daemon::Settings& settings, MonitorOptions& options) {
  settings.add("listen", &options.listen, "host:port for RPCs; port 0 picks one");
  settings.add("advertise", &options.advertise,
               "host by which others reach this daemon (default: that of listen)");
  settings.add("metaserver", &options.metaserver, "host:port of the metaserver");
  settings.add("data_dir", &options.data_dir, "directory to keep alarms and snapshots in");
  settings.add_bytes("history_bytes", &options.history_bytes, "disk space for alarms", 1 << 20,
                     uint64_t{1} << 40);
  settings.add_bytes("snapshot_bytes", &options.snapshot_bytes,
                     "disk space for snapshots of what processes reported", 16 << 20, uint64_t{1} << 40);
  settings.add("snapshot_interval", &options.snapshot_interval,
               "time between two snapshots that are kept while nothing is wrong", 1s, 24h);
  settings.add(
      "behaviour", &options.behaviour,
      "also report executions that take longer than their inputs explain; these verdicts are unsure");
  settings.add(
      "trace_collector", &options.trace_collector,
      "http://host:port/v1/traces of a collector that all processes send traces to, as OTLP; empty: none");
  settings.add("trace_share", &options.trace_share, "share of all traces that is sent there", 0, 1);
  settings.require("metaserver");
  settings.require("data_dir");
}

class Daemon final : public daemon::Daemon {
 public:
  Daemon(daemon::Shell& shell, const MonitorOptions& options, const MetricsOptions& metrics)
      : recorder_(shell.runtime.clock, shell.runtime.random.next()),
        foresight_(
            metrics_directory(std::filesystem::absolute(options.data_dir).lexically_normal().string())),
        records_(metrics.record),
        monitor_(shell.runtime, completed(options, shell), shell.secret),
        revocations_(shell.runtime, shell.secret, options.metaserver, monitor_.server()),
        api_(monitor_),
        recorded_(shell.runtime, monitor_, completed(metrics, shell)),
        what_if_(shell.runtime, monitor_),
        actions_(shell.runtime, monitor_, shell.secret) {
    add_pages(shell.http, shell.metrics, monitor_, api_);
    add_pages(shell.http, shell.metrics, recorded_, shell.runtime.clock);
    what_if_.add_page(shell.http);
    actions_.add_to(shell.http);
    sight::add_pages(shell.http, shell.metrics, recorder_);
  }

  asio::awaitable<Status> start() override {
    const Status started = co_await monitor_.start();
    if (started.ok()) revocations_.start();
    if (!started.ok() || !records_) co_return started;
    recorded_.start();
    if (const Status foretells = foresight_.start(); !foretells.ok())
      log::warning("nothing is foretold: {}", foretells.to_string());
    co_return started;
  }
  rpc::Server& rpc_server() override { return monitor_.server(); }
  asio::awaitable<void> stop() override {
    foresight_.stop();
    co_await actions_.stop();
    co_await what_if_.stop();
    co_await recorded_.stop();
    co_await revocations_.stop();
    co_await monitor_.stop();
  }

 private:
  MonitorOptions completed(MonitorOptions options, const daemon::Shell& shell) {
    options.recorder = &recorder_;
    options.foresight = &foresight_;
    options.http_address = shell.http_address;
    options.data_dir = std::filesystem::absolute(options.data_dir).lexically_normal().string();
    return options;
  }

  static MetricsOptions completed(MetricsOptions options, const daemon::Shell& shell) {
    options.tls = shell.production.tls();
    return options;
  }

  sight::Recorder recorder_;
  Foresight foresight_;
  const bool records_;
  Monitor monitor_;
  daemon::Revocations revocations_;
  ConsoleApi api_;
  MetricsRecorder recorded_;
  WhatIfApi what_if_;
  Actions actions_;
};

Result<std::unique_ptr<daemon::Daemon>> make(daemon::Shell& shell, const MonitorOptions& options,
                                             const MetricsOptions& metrics) {
  KINTSUGI_TRY(daemon::check_advertised(options.listen, options.advertise));
  tracing::listen_for_signal();
  const auto collector = http::Url::parse(options.trace_collector);
  if (!options.trace_collector.empty() && !collector)
    return collector.error().with_context("trace_collector");
  daemon::keep_private(options.data_dir);
  return std::make_unique<Daemon>(shell, options, metrics);
}

}  // namespace
}  // namespace kintsugi::monitoring

int main(int argc, char** argv) {
  using namespace kintsugi;
  tracing::block_trace_signal();
  if (argc > 1 && std::strcmp(argv[1], "analyse") == 0) return monitoring::analyse({argv + 2, argv + argc});
  if (argc > 1 && std::strcmp(argv[1], "judge") == 0)
    return monitoring::judge_metrics({argv + 2, argv + argc});
  if (argc > 1 && std::strcmp(argv[1], "metrics") == 0)
    return monitoring::show_metrics({argv + 2, argv + argc});
  monitoring::MonitorOptions options;
  monitoring::MetricsOptions metrics;
  daemon::Settings settings(
      "kintsugi-monitor",
      "Reports what in a cluster makes no progress, where, and who waits for it. With the word analyse it "
      "reads snapshots that it kept, with the word metrics what it recorded of metrics, and with the word "
      "judge it compares such recordings.",
      runtime::Endpoint{"127.0.0.1", 0});
  monitoring::add_settings(settings, options);
  monitoring::add_settings(settings, metrics);
  return daemon::run(argc, argv, settings,
                     [&](daemon::Shell& shell) { return monitoring::make(shell, options, metrics); });
}
