/// A chunkserver's side of its relation to the metaserver: registers, sends heartbeats and block reports,
/// deletes what it is told to.
#pragma once

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/service/cache_report.h"
#include "chunkserver/service/link_probe.h"
#include "chunkserver/service/load_report.h"
#include "chunkserver/service/service_parts.h"
#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::chunkserver {

struct LinkOptions {
  runtime::Endpoint metaserver;
  std::string address;  ///< where others reach this server
  std::string rack;
  std::string http_address;
};

/// What fills a heartbeat, and takes what its answer says.
struct HeartbeatParts {
  LoadReport& load;
  CacheReport& cache;
  LinkProber& prober;
};

/// Tries forever, with bounded backoff, until stopped.
class MetaserverLink {
 public:
  static constexpr size_t kReportPage = 10'000;
  static constexpr size_t kMaxLostPerHeartbeat = 1000;
  static constexpr size_t kMaxVictims =
      100'000;  ///< waiting to be deleted; more are sent again by the metaserver
  static constexpr size_t kDeletesAtOnce = 16;
  static constexpr Duration kFirstBackoff = std::chrono::milliseconds(100);
  static constexpr Duration kLastBackoff = std::chrono::seconds(2);
  static constexpr Duration kCallLimit = std::chrono::seconds(5);
  static constexpr Duration kReportInterval = std::chrono::hours(1);
  static constexpr Duration kMinHeartbeatInterval = std::chrono::milliseconds(10);
  static constexpr Duration kMaxHeartbeatInterval = std::chrono::minutes(1);

  MetaserverLink(ServiceParts& parts, HeartbeatParts heartbeat, rpc::Client& client,
                 sight::Recorder& recorder, LinkOptions options);

  void start();
  asio::awaitable<void> stop();

  bool registered() const { return registered_; }
  /// This server must not serve. kConflict: the metaserver is of another cluster than the disks. kNotFound:
  /// the server was removed from the cluster. Runs once; nothing is said to the metaserver afterwards.
  std::function<void(Status)> on_refused;

 private:
  asio::awaitable<void> run();
  void refuse(Status why);
  asio::awaitable<Status> register_server();
  asio::awaitable<Status> report_blocks();
  asio::awaitable<Status> heartbeat();
  proto::HeartbeatRequest heartbeat_request(const StoreSpace& space);
  void take_lost();
  void obey(const proto::HeartbeatResponse& response);
  asio::awaitable<void> delete_victims();
  asio::awaitable<void> delete_some();
  Context call_context();

  ServiceParts& parts_;
  HeartbeatParts heartbeat_;
  rpc::Client& client_;
  sight::Recorder& recorder_;
  LinkOptions options_;
  uint64_t incarnation_;
  uint64_t sequence_ = 0, reports_ = 0;
  bool registered_ = false, report_wanted_ = false, refused_ = false;
  Duration interval_ = std::chrono::seconds(1);
  TimePoint next_report_;
  std::deque<ChunkInfo> lost_;  ///< not yet told
  std::deque<ChunkId> victims_;
  std::set<ChunkId> victims_known_;  ///< of what is in victims_: still to be deleted
  runtime::Event victims_came_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::chunkserver
