/// The state and history of repairs, for people: of all repair managers together.
#pragma once

#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "common/runtime/runtime.h"
#include "metaserver/cluster/server_names.h"
#include "metaserver/repair/repair_shards.h"

namespace kintsugi::metaserver {

/// Asks the managers that are registered. Those that do not answer within kAskLimit are left out.
class RepairReports {
 public:
  /// Time limit for asking all managers together.
  static constexpr Duration kAskLimit = std::chrono::seconds(1);

  /// References outlive it.
  RepairReports(const runtime::Runtime& runtime, const RepairShards& shards, const ServerNames& names,
                rpc::Client& client)
      : runtime_(runtime), shards_(shards), names_(names), client_(client) {}

  asio::awaitable<void> status(Context context, proto::RepairStatusResponse& all);
  /// At most `limit` records, the newest first.
  asio::awaitable<void> history(Context context, uint32_t limit, proto::RepairHistoryResponse& all);
  /// Names the servers of a repair that somebody asked for.
  void add_names(proto::RunRepairResponse& response) const;

 private:
  template <class Response>
  asio::awaitable<std::vector<Response>> ask_all(Context context, rpc::Method method,
                                                 const google::protobuf::MessageLite& request);

  runtime::Runtime runtime_;
  const RepairShards& shards_;
  const ServerNames& names_;
  rpc::Client& client_;
};

}  // namespace kintsugi::metaserver
