/// The RPCs of repairs and degraded reads: each function checks the right to do it, counts the call, and hands it on.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/repair/partial_sum.h"
#include "chunkserver/repair/repair_site.h"
#include "chunkserver/service/capability_judge.h"
#include "chunkserver/service/counters.h"
#include "common/proto/chunk.pb.h"
#include "common/rpc/server.h"

namespace kintsugi::chunkserver {

/// Every call may fail with kPermissionDenied, and otherwise as the function that it is handed to.
class RepairService {
 public:
  /// References outlive the server's calls.
  RepairService(CapabilityJudge judge, ServiceCounters& counters, PartialSums& sums, RepairSite& site)
      : judge_(judge), counters_(counters), sums_(sums), site_(site) {}

  /// Maps the methods below. REQUIRES: the server has not started.
  void register_on(rpc::Server& server);

  asio::awaitable<Status> partial_sum(Context context, const proto::PartialSumRequest& request,
                                      rpc::Stream& stream);
  asio::awaitable<Status> repair_chunk(Context context, const proto::RepairChunkRequest& request,
                                       proto::RepairChunkResponse& response);
  asio::awaitable<Status> end_repair(Context context, const proto::EndRepairRequest& request, proto::Empty&);

 private:
  /// The right to read the node's own chunk, and to write what it stores.
  Status check_node(StripeId stripe, const proto::RepairNode& node) const;

  const CapabilityJudge judge_;
  ServiceCounters& counters_;
  PartialSums& sums_;
  RepairSite& site_;
};

}  // namespace kintsugi::chunkserver
