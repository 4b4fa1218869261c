/// The repair manager's daemon: responsible for a shard of the stripes, together with others like it (Mitra 2016, section
/// 4.5, "Beyond a centrally managed server").
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/secret.h"
#include "common/rpc/server.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "repair_manager/compaction/compactor.h"
#include "repair_manager/daemon/remote_cluster_view.h"
#include "repair_manager/daemon/work_feed.h"
#include "repair_manager/manager/repair_manager.h"

namespace kintsugi::repair_manager {

struct RepairDaemonOptions {
  runtime::Endpoint listen{"127.0.0.1", 0};
  runtime::Endpoint metaserver;
  std::string advertise;     ///< host by which the metaserver reaches this daemon; empty: that of listen
  std::string http_address;  ///< the address that pages show; may be empty
  Options repairs;           ///< delay and max_per_server: as the metaserver says
  sight::Recorder* recorder = nullptr;
};

/// Keeps nothing durable: it learns everything from the metaserver, its repairs are committed there, and when it dies
/// others take its shards.
class RepairDaemon final : private CompactionHost {
 public:
  static constexpr uint32_t kMaxHistory = 1000;  ///< records of one answer

  /// `runtime`'s parts outlive it.
  RepairDaemon(const runtime::Runtime& runtime, RepairDaemonOptions options, rpc::Secret secret);

  /// Listens and begins to join the metaserver, which need not be there yet. Errors: of listening.
  Status start();
  /// Ends running repairs. Idempotent; after a failed start() too.
  asio::awaitable<void> stop();

  runtime::Endpoint endpoint() const { return server_.local_endpoint(); }
  RepairManager& repairs() { return repairs_; }
  /// For what the daemon tells it of tokens.
  rpc::Server& server() { return server_; }
  const WorkFeed& feed() const { return feed_; }
  /// The chunkservers as the metaserver described them lately.
  const std::vector<proto::ServerState>& servers() const { return view_.server_states(); }
  Compactor& compactor() { return compactor_; }

  /// Asks the metaserver for the stripes that have chunks on these servers, for kPlacesLimit at most, and tells them;
  /// nothing: it did not answer, or there are too many.
  using TellStripes = std::function<void(std::optional<std::vector<proto::Stripe>>)>;
  void find_stripes(std::vector<uint64_t> server_ids, TellStripes tell);
  static constexpr Duration kPlacesLimit = std::chrono::seconds(5);

 private:
  bool may_compact(InodeId inode) const override { return view_.mine(inode); }
  bool repairs_first() const override;
  uint64_t compaction_bandwidth() const override;

  asio::awaitable<void> ask_for_stripes(std::vector<uint64_t> server_ids, TellStripes tell);

  void register_handlers();
  asio::awaitable<Status> status(Context context, const proto::Empty& request,
                                 proto::RepairStatusResponse& response);
  asio::awaitable<Status> history(Context context, const proto::RepairHistoryRequest& request,
                                  proto::RepairHistoryResponse& response);
  /// What an operator has just changed counts: the servers are asked for anew.
  asio::awaitable<Status> run_repair(Context context, const proto::RunRepairRequest& request,
                                     proto::RunRepairResponse& response);
  /// These two come through the metaserver, which has checked that the client may read the chunk.
  asio::awaitable<Status> plan_read(Context context, const proto::PlanReadRequest& request,
                                    proto::PlanReadResponse& response);
  asio::awaitable<Status> finish_read(Context context, const proto::FinishReadRequest& request,
                                      proto::Empty& response);
  asio::awaitable<Status> ping(Context context, const proto::Empty& request, proto::Empty& response);

  const runtime::Runtime runtime_;
  const RepairDaemonOptions options_;
  const rpc::Secret secret_;
  const uint64_t id_;
  rpc::Server server_;
  rpc::Client client_;
  RemoteClusterView view_;
  RepairManager repairs_;
  Compactor compactor_;
  WorkFeed feed_;
  runtime::TaskGroup questions_;
  bool started_ = false;
};

}  // namespace kintsugi::repair_manager
