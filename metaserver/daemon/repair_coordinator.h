/// The metaserver's side of repair managers that run as daemons of their own (W section 4.5, "Beyond a
/// centrally managed server"): who is responsible for what, and the RPCs with which they learn what is lost,
/// look at stripes and commit repairs. While none is there, the hosted repair manager does it all.
#pragma once

#include <optional>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/proto/coordination.pb.h"
#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "common/runtime/task_group.h"
#include "metaserver/cluster/repair_log.h"
#include "metaserver/cluster/repair_shards.h"
#include "metaserver/service/metaserver.h"
#include "repair_manager/manager/repair_manager.h"

namespace kintsugi::metaserver {

/// What managers are told about how to work.
struct RepairLimits {
  Duration delay{};
  uint32_t max_per_server = 4;  ///< of all managers together, though each has at least 1
};

class RepairCoordinator {
 public:
  static constexpr int kMaxDescribed = 5000;  ///< stripes of one call
  static constexpr size_t kMaxMissingPage = 10'000;
  static constexpr size_t kMaxScanned = 100'000;  ///< chunks of a server looked at for one page
  static constexpr Duration kLook = std::chrono::milliseconds(250);  ///< between two looks at who is gone
  static constexpr Duration kAskLimit = std::chrono::seconds(1);     ///< for all managers' status

  /// References outlive it.
  RepairCoordinator(const runtime::Runtime& runtime, MetaServer& metaserver,
                    const repair_manager::ClusterView& view, repair_manager::RepairManager& hosted,
                    rpc::Client& client, RepairLimits limits);

  void register_on(rpc::Server& server);
  void start();
  asio::awaitable<void> stop();

  // What happened, for whoever is responsible.
  void server_dead(ServerId server);
  void server_returned(ServerId server);
  void chunk_lost(ChunkId chunk, const std::string& why);
  void stripe_deleted(StripeId stripe);
  void move_wanted(const WantedMove& move);
  void moves_cancelled(ServerId from);

  /// Where the repair manager of this stripe is; nullopt: it is the hosted one.
  std::optional<runtime::Endpoint> owner_address(StripeId stripe) const;
  const RepairShards& shards() const { return shards_; }

  /// Of all managers together; those that do not answer within kAskLimit are left out.
  asio::awaitable<Result<proto::RepairStatusResponse>> status(Context context);
  /// Newest first.
  asio::awaitable<Result<proto::RepairHistoryResponse>> history(Context context, uint32_t limit);

 private:
  asio::awaitable<Result<proto::JoinRepairResponse>> join(Context context, proto::JoinRepairRequest request);
  asio::awaitable<Result<proto::FetchRepairWorkResponse>> fetch(Context context,
                                                                proto::FetchRepairWorkRequest request);
  asio::awaitable<Result<proto::DescribeStripesResponse>> describe(Context context,
                                                                   proto::DescribeStripesRequest request);
  asio::awaitable<Result<proto::CommitRepairResponse>> commit(Context context,
                                                              proto::CommitRepairRequest request);
  asio::awaitable<void> watch();
  /// The hosted manager begins or ends to be responsible.
  void follow_shards();
  void take_over();
  void list_missing(RepairShards::ManagerId manager, const proto::MissingPage& page,
                    proto::FetchRepairWorkResponse& answer) const;
  Status check_owner(RepairShards::ManagerId manager, StripeId stripe) const;
  template <class Response>
  asio::awaitable<std::vector<Response>> ask_all(Context context, rpc::Method method, std::string request);

  runtime::Runtime runtime_;
  MetaServer& metaserver_;
  const repair_manager::ClusterView& view_;
  repair_manager::RepairManager& hosted_;
  rpc::Client& client_;
  const RepairLimits limits_;
  const uint64_t life_;  ///< grows with each start
  RepairShards shards_;
  RepairLog log_;
  bool hosted_works_ = true;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::metaserver
