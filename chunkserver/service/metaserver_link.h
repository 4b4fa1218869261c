/// A chunkserver's side of its relation to the metaserver: registers, and sends heartbeats and block reports.
#pragma once

#include <functional>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/repair/repair_pacer.h"
#include "chunkserver/service/heartbeat.h"
#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/metaserver_clock.h"
#include "common/runtime/task_group.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::chunkserver {

struct LinkOptions {
  runtime::Endpoint metaserver;
  std::string address;  ///< address at which others reach this server
  std::string name;     ///< name for people; empty: its address
  std::string rack;
  std::string http_address;
  /// Reported to the metaserver, so that repair plans respect it; 0: no limit.
  uint64_t repair_limit_bytes_per_second;
  rpc::MetaserverClock& metaserver_clock;  ///< set by the answers to heartbeats
  RepairPacer& pacer;                      ///< learns the cluster's limit of repairs from these answers
};

/// Tries forever, with bounded backoff, until stopped.
class MetaserverLink {
 public:
  static constexpr size_t kReportPage = 10'000;
  static constexpr Duration kFirstBackoff = std::chrono::milliseconds(100);
  static constexpr Duration kLastBackoff = std::chrono::seconds(2);
  static constexpr Duration kCallLimit = std::chrono::seconds(5);
  static constexpr Duration kLeaveLimit = std::chrono::seconds(1);
  /// Between two calls of say_leaving().
  static constexpr Duration kLeavingInterval = std::chrono::seconds(1);
  static constexpr Duration kReportInterval = std::chrono::hours(1);
  /// After a report that failed. Longer than any backoff, so that a heartbeat comes first: its answer says whether this
  /// server must register again, or how it comes that the metaserver does not want its reports.
  static constexpr Duration kReportAgain = std::chrono::seconds(3);
  static_assert(kReportAgain > kLastBackoff);
  static constexpr Duration kMinHeartbeatInterval = std::chrono::milliseconds(10);
  static constexpr Duration kMaxHeartbeatInterval = std::chrono::minutes(1);
  /// How often the mark of the metadata is written to disk while its epoch stays the same.
  static constexpr Duration kMarkInterval = std::chrono::minutes(1);

  /// References outlive it.
  MetaserverLink(const runtime::Runtime& runtime, ChunkStore& store, Heartbeat& heartbeat,
                 rpc::Client& client, sight::Recorder& recorder, LinkOptions options);

  void start();
  asio::awaitable<void> stop();
  /// Tells the metaserver that this server is being stopped: nothing new is placed here, and it does not count as dead.
  /// REQUIRES: stop() has returned.
  asio::awaitable<Status> say_leaving();

  bool registered() const { return registered_; }
  void set_repair_limit(uint64_t bytes_per_second) {
    options_.repair_limit_bytes_per_second = bytes_per_second;
  }
  /// This server must not serve. kConflict: the metaserver is of another cluster than the disks. kNotFound: the server
  /// was removed from the cluster. kAlreadyExists: another process has registered as this server since this one did.
  /// kNotSupported: the cluster has a format that this program does not know.
  /// Runs once; nothing is said to the metaserver afterwards.
  std::function<void(Status)> on_refused;

 private:
  asio::awaitable<void> run();
  void refuse(Status why);
  /// Hands the metaserver's error to a call through, and refuses to continue when that is what it means.
  Status note(Status called, std::string_view call);
  asio::awaitable<Status> register_server();
  asio::awaitable<Status> report_blocks();
  asio::awaitable<Status> send_heartbeat(Context context, bool leaving);
  void obey(const proto::HeartbeatResponse& response);
  /// Keeps the cluster's format when it has become a newer one.
  asio::awaitable<Status> keep_format(uint32_t format);
  void keep_mark(const proto::MetadataMark& mark);
  Context call_context();

  const runtime::Runtime& runtime_;
  ChunkStore& store_;
  Heartbeat& heartbeat_;
  rpc::Client& client_;
  sight::Recorder& recorder_;
  LinkOptions options_;
  uint64_t incarnation_;  ///< random; distinguishes this run of the server from earlier ones
  /// Incarnation of the former run whose place this one takes, as the metaserver named it; 0: none.
  uint64_t replaces_ = 0;
  uint64_t sequence_ = 0, reports_ = 0;
  bool registered_ = false, refused_ = false;
  Duration interval_ = std::chrono::seconds(1);
  TimePoint report_due_;
  /// Disks and copies that had been found late when the latest block report began (StoreCounters).
  uint64_t found_late_ = 0;
  proto::MetadataMark mark_;  ///< latest mark received from the metaserver
  TimePoint mark_kept_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::chunkserver
