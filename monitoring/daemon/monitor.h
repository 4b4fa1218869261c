/// kintsugi-monitor: collects what all processes say about their open work, says what is wrong, and keeps that.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/proto/sight.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/secret.h"
#include "common/rpc/server.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "monitoring/daemon/alarms.h"
#include "monitoring/daemon/cluster_watch.h"
#include "monitoring/daemon/detectors.h"
#include "monitoring/daemon/mounts.h"
#include "monitoring/daemon/record_keeper.h"
#include "monitoring/daemon/report_intake.h"
#include "monitoring/daemon/trends.h"

namespace kintsugi::monitoring {

struct MonitorOptions {
  runtime::Endpoint listen{"127.0.0.1", 0};
  runtime::Endpoint metaserver;
  std::string advertise;     ///< host at which others reach this daemon; empty: the host of `listen`
  std::string http_address;  ///< address of the console; empty: there is no console
  std::string data_dir;      ///< where alarms and snapshots are kept
  uint64_t history_bytes = 16 << 20;
  uint64_t snapshot_bytes = 256 << 20;
  /// A snapshot is kept so often while nothing is wrong; while an alarm stands, and for kAfterAlarm, each second.
  Duration snapshot_interval = std::chrono::seconds(10);
  bool behaviour = false;  ///< executions are also compared with what their inputs predict
  /// URL "http://host:port/v1/traces", which all processes are told; empty: traces are sent nowhere.
  std::string trace_collector;
  double trace_share = 0.01;  ///< share of all traces that is sent
  TraceRecorder* recorder = nullptr;
  /// Source of forecasts that become alarms; null: nothing is forecast.
  const Foresight* foresight = nullptr;
};

/// Nobody depends on it: when it dies, processes keep looking for another one, and the metaserver answers in its place
/// as far as heartbeats tell.
class Monitor {
 public:
  static constexpr Duration kRound = std::chrono::seconds(1);
  static constexpr Duration kAfterAlarm = std::chrono::seconds(5);
  /// A round that comes so late means that this process itself was stopped or blocked: that it received nothing
  /// meanwhile says nothing about others.
  static constexpr Duration kStoodStill = std::chrono::seconds(3);
  /// After a standstill, nothing is judged until every process has had this time to report again.
  static constexpr Duration kListenAgain = std::chrono::seconds(5);
  // Limits of one answer, which has to fit into a frame.
  static constexpr int kMostProcessLines = 1000;
  static constexpr size_t kMostVerdictBytes = 768 << 10;
  /// Records and snapshots that wait for the disk.
  static constexpr size_t kMostWaitingRecords = 1024, kMostWaitingSnapshots = 4;

  /// `runtime`'s parts outlive it. `detectors`: none: those of make_detectors.
  Monitor(const runtime::Runtime& runtime, MonitorOptions options, rpc::Secret secret,
          std::vector<std::unique_ptr<Detector>> detectors = {});

  /// Reads what is kept, listens, and begins to look for the metaserver, which need not be there yet. Errors: of the
  /// directory and of listening.
  asio::awaitable<Status> start();
  /// Idempotent; after a failed start() too.
  asio::awaitable<void> stop();

  runtime::Endpoint endpoint() const { return server_.local_endpoint(); }
  /// For what the daemon tells it of tokens.
  rpc::Server& server() { return server_; }
  const MonitorOptions& options() const { return options_; }
  const Alarms& alarms() const { return alarms_; }
  const ReportIntake& intake() const { return intake_; }
  const ClusterWatch& watch() const { return watch_; }
  /// Somebody looks at quotas and snapshots.
  void ask_of_names() { watch_.ask_of_names(); }
  const Trends& trends() const { return trends_; }
  const MountTrends& mount_trends() const { return mount_trends_; }
  /// What is known now.
  model::Snapshot snapshot() const;
  Duration uptime() const { return runtime_.clock.now() - started_at_; }
  Duration last_round() const { return last_round_; }  ///< duration of the latest round of detectors
  /// The models of times of regions by their inputs (setting `behaviour`) that explain most, at most kMostModels.
  google::protobuf::RepeatedPtrField<proto::LearntModel> models() const;
  static constexpr int kMostModels = 500;
  uint64_t kept_bytes() const { return history_.bytes() + snapshots_.bytes(); }
  uint64_t records_given_up() const { return history_.given_up() + snapshots_.given_up(); }

  /// As kDiagnose answers.
  proto::DiagnoseResponse answer(bool with_history) const;

 private:
  asio::awaitable<Status> diagnose(Context context, const proto::DiagnoseRequest& request,
                                   proto::DiagnoseResponse& response);
  asio::awaitable<Status> ping(Context context, const proto::Empty& request, proto::Empty& response);
  asio::awaitable<void> rounds();
  void round();
  /// As Alarms::round takes it.
  std::set<uint64_t> heard(const model::Snapshot& snapshot) const;

  runtime::Runtime runtime_;
  const MonitorOptions options_;
  const std::vector<std::unique_ptr<Detector>> detectors_;
  const uint64_t id_;
  rpc::Server server_;
  rpc::Client client_;
  ReportIntake intake_;
  ClusterWatch watch_;
  Alarms alarms_;
  Trends trends_;
  MountTrends mount_trends_;
  RecordKeeper history_, snapshots_;
  TimePoint started_at_{}, last_kept_{}, last_alarm_{}, last_round_at_{}, listens_until_{};
  Duration last_round_{};
  bool stopped_ = false;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::monitoring
