/// The RPC with which operators limit repairs.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/cluster/repair_limit.h"
#include "metaserver/service/meta_store.h"

namespace kintsugi::metaserver {

class RepairLimitService {
 public:
  /// References outlive it.
  RepairLimitService(MetaStore& store, RepairLimit& limit) : store_(store), limit_(limit) {}
  void register_on(rpc::Server& server);

 private:
  /// kInvalidArgument: neither 0 nor within kLeastRepairLimit and kMostRepairLimit.
  asio::awaitable<Status> limit_repairs(Context context, const proto::LimitRepairsRequest& request,
                                        proto::Empty& response);

  MetaStore& store_;
  RepairLimit& limit_;
};

}  // namespace kintsugi::metaserver
