/// A monitor on a simulated machine, a metaserver that knows a few servers and nothing else, and processes that report what a test
/// makes up.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/log/log.h"
#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "monitoring/daemon/monitor.h"
#include "tests/expect_ok.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::monitoring {

inline rpc::Secret rig_secret() {
  std::array<std::byte, 32> key;
  key.fill(std::byte{7});
  return rpc::Secret(key);
}

/// Answers what a monitor asks.
class FakeMetaserver {
 public:
  explicit FakeMetaserver(const runtime::Runtime& runtime) : server_(runtime, rig_secret(), nullptr) {
    server_.handle(rpc::Method::kRegisterMonitor,
                   [this](Context, const proto::RegisterMonitorRequest& request,
                          proto::RegisterMonitorResponse&) -> asio::awaitable<Status> {
                     if (refuses) co_return Status{Code::kConflict, "the monitor at x was started later"};
                     registered = request;
                     ++registrations;
                     co_return Status{};
                   });
    server_.handle(rpc::Method::kListServers,
                   [this](Context, const proto::Empty&,
                          proto::ListServersResponse& response) -> asio::awaitable<Status> {
                     response = servers;
                     co_return Status{};
                   });
    server_.handle(rpc::Method::kRepairStatus,
                   [this](Context, const proto::Empty&,
                          proto::RepairStatusResponse& response) -> asio::awaitable<Status> {
                     response = repairs;
                     co_return repairs_status;
                   });
    server_.handle(
        rpc::Method::kDiskFree,
        [this](Context, const proto::Empty&, proto::DiskFreeResponse& response) -> asio::awaitable<Status> {
          response = space;
          co_return space_status;
        });
    server_.handle(rpc::Method::kListQuotas,
                   [this](Context, const proto::ListQuotasRequest&,
                          proto::ListQuotasResponse& response) -> asio::awaitable<Status> {
                     response = quotas;
                     ++quotas_asked;
                     co_return Status{};
                   });
    server_.handle(rpc::Method::kListSnapshots,
                   [](Context, const proto::ListSnapshotsRequest&,
                      proto::ListSnapshotsResponse& response) -> asio::awaitable<Status> {
                     proto::Snapshot& snapshot = *response.add_snapshots();
                     snapshot.set_path("/home");
                     snapshot.set_name("monday");
                     co_return Status{};
                   });
  }
  Status start(const runtime::Endpoint& at) { return server_.start(at); }
  asio::awaitable<void> stop() { return server_.stop(); }

  proto::ListQuotasResponse quotas;
  int quotas_asked = 0;  ///< how often it was asked for them
  bool refuses = false;
  int registrations = 0;
  proto::RegisterMonitorRequest registered;
  proto::ListServersResponse servers;
  proto::RepairStatusResponse repairs;
  Status repairs_status;  ///< of the answer
  proto::DiskFreeResponse space;
  Status space_status;  ///< likewise

 private:
  rpc::Server server_;
};

class MonitorRig {
 public:
  static constexpr int kServers = 3;

  explicit MonitorRig(MonitorOptions options = {})
      : simulation(1),
        meta_node(simulation, "10.0.0.1"),
        monitor_node(simulation, "10.0.0.2"),
        process_node(simulation, "10.0.0.3"),
        options_(std::move(options)) {
    log::set_level(log::Level::kError);
    options_.listen = {"10.0.0.2", 8000};
    options_.metaserver = {"10.0.0.1", 7000};
    options_.http_address = "10.0.0.2:8001";
    options_.data_dir = "/monitor";
    meta = std::make_unique<FakeMetaserver>(meta_node.runtime());
    for (uint64_t i = 1; i <= kServers; ++i) {
      proto::ServerState& server = *meta->servers.add_servers();
      server.set_server_id(100 + i);
      server.set_number(static_cast<uint32_t>(i));
      server.set_name("server-" + std::to_string(i));
      server.set_address("10.0.1." + std::to_string(i) + ":1");
    }
    KINTSUGI_EXPECT_OK(meta->start(options_.metaserver));
    client = std::make_unique<rpc::Client>(process_node.runtime(), rig_secret());
    start();
  }
  ~MonitorRig() {
    log::set_level(log::Level::kInfo);  // other tests of the process count lines
    if (monitor) simulation.run(monitor->stop());
    simulation.run(meta->stop());
    simulation.run(client->stop());
  }

  /// `detectors`: none: those of the product.
  void start(std::vector<std::unique_ptr<Detector>> detectors = {}) {
    monitor = std::make_unique<Monitor>(monitor_node.runtime(), options_, rig_secret(), std::move(detectors));
    KINTSUGI_EXPECT_OK(simulation.run(monitor->start()));
  }
  /// kill -9, or the machine loses its power.
  void crash(bool power_loss) {
    monitor_node.crash(power_loss);
    simulation.run(monitor->stop());
    monitor.reset();
    monitor_node.restart();
  }

  /// A report of the process of server `number`, whose sequence grows.
  proto::SightReport report(uint64_t number, Duration stalled = {}) {
    proto::SightReport report;
    report.set_process(1000 + number);
    report.set_kind("chunkserver");
    report.set_name("server-" + std::to_string(number));
    report.set_server_id(100 + number);
    report.set_address("10.0.1." + std::to_string(number) + ":1");
    report.set_sequence(++sequence_);
    report.mutable_loop()->set_stalled_ns(static_cast<uint64_t>(stalled.count()));
    return report;
  }
  Result<proto::SightReportAnswer> send(const proto::SightReport& report) {
    proto::SightReportAnswer answer;
    const Context context = Context{}.with_deadline(simulation.now() + 2s);
    Status sent =
        simulation.run(client->call(context, options_.listen, rpc::Method::kSightReport, report, answer));
    if (!sent.ok()) return sent;
    return answer;
  }
  /// All servers report for so many seconds. The loop of one of them (0: none) has been stuck for `stalled` at first.
  void report_for(int seconds, uint64_t stuck = 0, Duration stalled = 10s) {
    for (int i = 0; i < seconds; ++i) {
      for (uint64_t server = 1; server <= kServers; ++server)
        if (server != silent)
          EXPECT_TRUE(send(report(server, server == stuck ? stalled + i * 1s : Duration{})));
      simulation.run_for(1s);
    }
  }
  proto::DiagnoseResponse diagnose(bool history = false, bool models = false) {
    proto::DiagnoseRequest request;
    request.set_history(history);
    request.set_models(models);
    proto::DiagnoseResponse answer;
    const Context context = Context{}.with_deadline(simulation.now() + 2s);
    KINTSUGI_EXPECT_OK(
        simulation.run(client->call(context, options_.listen, rpc::Method::kDiagnose, request, answer)));
    return answer;
  }

  /// The metaserver's process dies, or is there again.
  void kill_metaserver() {
    meta_node.crash();
    simulation.run(meta->stop());
  }
  void restart_metaserver() {
    const proto::ListServersResponse servers = meta->servers;
    meta_node.restart();
    meta = std::make_unique<FakeMetaserver>(meta_node.runtime());
    meta->servers = servers;
    KINTSUGI_EXPECT_OK(meta->start(options_.metaserver));
  }

  uint64_t silent = 0;  ///< the server of this number does not report; 0: none
  simulation::Simulation simulation;
  simulation::SimNode meta_node, monitor_node, process_node;
  std::unique_ptr<FakeMetaserver> meta;
  std::unique_ptr<Monitor> monitor;
  std::unique_ptr<rpc::Client> client;

 private:
  MonitorOptions options_;
  uint64_t sequence_ = 0;
};

}  // namespace kintsugi::monitoring
