/// What the monitor knows of the cluster through the metaserver, and how everybody else learns where the monitor is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/proto/meta.pb.h"
#include "common/proto/sight.pb.h"
#include "common/rpc/client.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "monitoring/daemon/repair_pace.h"
#include "monitoring/model/snapshot.h"

namespace kintsugi::monitoring {

/// Quotas and snapshots, as the metaserver listed them last.
struct NamesWatch {
  bool known = false;  ///< it has listed them once
  proto::ListQuotasResponse quotas;
  proto::ListSnapshotsResponse snapshots;
};

/// Says every second that the monitor lives, and asks which servers there are and what is being repaired. While the
/// metaserver does not answer, what it said last is what is known.
class ClusterWatch {
 public:
  static constexpr Duration kPoll = std::chrono::seconds(1);
  /// Used until the metaserver has answered once.
  static constexpr Duration kFirstPoll = std::chrono::milliseconds(200);
  static constexpr Duration kCallLimit = std::chrono::seconds(1);
  /// Quotas and snapshots are asked for so long after ask_of_names().
  static constexpr Duration kNamesWanted = std::chrono::seconds(15);

  /// `client` outlives it. `monitor_id`: random at each start.
  ClusterWatch(const runtime::Runtime& runtime, rpc::Client& client, runtime::Endpoint metaserver,
               uint64_t monitor_id);

  /// `address`, `http_address`: where this monitor is.
  void start(std::string address, std::string http_address);
  /// Says that the monitor leaves, and ends. `client` must not be stopped yet.
  asio::awaitable<void> stop();

  const proto::ListServersResponse& servers() const { return servers_; }
  /// The servers that the metaserver is to have others avoid from its next turn on.
  void tell_slow(const std::vector<proto::SlowServer>& slow);
  /// As detectors want them.
  std::vector<model::ServerLife> lives() const;
  /// The metaserver has others avoid the server.
  bool gone_around(uint64_t server_id) const;
  const proto::RepairStatusResponse& repairs() const { return repairs_; }
  const RepairPace& repair_pace() const { return repair_pace_; }
  /// No repair manager is registered, in the metaserver's words; empty: there is one, or it was not asked yet.
  const std::string& nobody_repairs() const { return nobody_repairs_; }
  /// Room, and how many stripes lack chunks.
  const proto::DiskFreeResponse& space() const { return space_; }
  const NamesWatch& names() const { return names_; }
  void ask_of_names() { names_wanted_until_ = runtime_.clock.now() + kNamesWanted; }
  /// How long ago the metaserver answered last; none: never.
  std::optional<Duration> answered_ago() const;
  /// How long ago it said what space() is; none: never.
  std::optional<Duration> space_told_ago() const;
  /// Another monitor was started later: this one is not asked any more.
  bool replaced() const { return replaced_; }
  const runtime::Endpoint& metaserver() const { return metaserver_; }

 private:
  asio::awaitable<void> follow();
  asio::awaitable<Status> turn();
  asio::awaitable<Status> look_at_names();
  std::optional<Duration> ago(const std::optional<TimePoint>& then) const;
  template <class Request, class Response>
  asio::awaitable<Status> call(rpc::Method method, const Request& request, Response& response);

  runtime::Runtime runtime_;
  rpc::Client& client_;
  const runtime::Endpoint metaserver_;
  proto::RegisterMonitorRequest request_;
  proto::ListServersResponse servers_;
  proto::RepairStatusResponse repairs_;
  RepairPace repair_pace_;
  std::string nobody_repairs_;
  proto::DiskFreeResponse space_;
  NamesWatch names_;
  TimePoint names_wanted_until_{};
  std::optional<TimePoint> answered_, space_told_;
  bool replaced_ = false;
  bool started_ = false;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::monitoring
