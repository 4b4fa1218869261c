/// The RPCs with which repair managers learn what is lost, look at stripes and commit repairs.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "common/proto/coordination.pb.h"
#include "common/rpc/server.h"
#include "metaserver/chunks/cache_map.h"
#include "metaserver/chunks/chunk_map.h"
#include "metaserver/daemon/repair_coordinator.h"
#include "metaserver/repair/compactions.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/repair_service.h"

namespace kintsugi::metaserver {

/// One function for each RPC. Only the manager that owns a stripe's shard may commit its repairs, and only when they
/// began in this life of the metaserver: what a repair may rely on (RepairService::begins) is kept in memory.
class CoordinationService {
 public:
  static constexpr int kMaxDescribed = 5000;  ///< stripes of one call
  static constexpr size_t kMaxMissingPage = 10'000;
  static constexpr size_t kMaxCompactions = 100;  ///< files of one answer
  static constexpr size_t kMaxScanned = 100'000;  ///< chunks of a server looked at for one page
  /// A manager that asks for events is answered when there is one for it or its shards changed, and after this in any case.
  static constexpr Duration kHold = std::chrono::milliseconds(200);

  /// References outlive it.
  CoordinationService(MetaStore& store, const ChunkMap& chunks, const CacheMap& caches,
                      Compactions& compactions, RepairService& repairs, RepairCoordinator& coordinator)
      : store_(store),
        chunks_(chunks),
        caches_(caches),
        compactions_(compactions),
        repairs_(repairs),
        coordinator_(coordinator) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> join(Context context, const proto::JoinRepairRequest& request,
                               proto::JoinRepairResponse& response);
  asio::awaitable<Status> fetch(Context context, const proto::FetchRepairWorkRequest& request,
                                proto::FetchRepairWorkResponse& response);
  asio::awaitable<Status> describe(Context context, const proto::DescribeStripesRequest& request,
                                   proto::DescribeStripesResponse& response);
  asio::awaitable<Status> commit(Context context, const proto::CommitRepairRequest& request,
                                 proto::CommitRepairResponse& response);

  /// kConflict: the manager has to join and learn its shards.
  Status check_joined(const proto::FetchRepairWorkRequest& request) const;
  /// Reads the events after those that `answer` has examined already. False: there is nothing to tell.
  bool read_events(const proto::FetchRepairWorkRequest& request,
                   proto::FetchRepairWorkResponse& answer) const;
  /// Reads events as soon as there are some, for kHold at most.
  asio::awaitable<Status> await_events(Context context, const proto::FetchRepairWorkRequest& request,
                                       proto::FetchRepairWorkResponse& answer);
  /// Files of the manager's shards that lie badly.
  void take_compactions(const proto::FetchRepairWorkRequest& request, proto::FetchRepairWorkResponse& answer);
  void list_missing(RepairShards::ManagerId manager, const proto::MissingPage& page,
                    proto::FetchRepairWorkResponse& answer) const;
  Status check_owner(RepairShards::ManagerId manager, StripeId stripe) const;
  /// Returns the incarnation of the process that registered last as this server; 0: there is none.
  uint64_t incarnation_of(ServerId server) const;

  MetaStore& store_;
  const ChunkMap& chunks_;
  const CacheMap& caches_;
  Compactions& compactions_;
  RepairService& repairs_;
  RepairCoordinator& coordinator_;
};

}  // namespace kintsugi::metaserver
