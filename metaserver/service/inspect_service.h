/// The RPCs that show the state of the cluster: servers, stripes, fsck.
#pragma once

#include "common/proto/sight.pb.h"
#include "common/rpc/server.h"
#include "metaserver/repair/rebalancer.h"
#include "metaserver/service/chunk_parts.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/service/server_parts.h"
#include "metaserver/service/stripe_describer.h"

namespace kintsugi::metaserver {

/// One function for each RPC. References outlive it.
class InspectService {
 public:
  InspectService(MetaStore& store, const NamespaceParts& names, const ServerParts& servers,
                 const ChunkParts& chunks, const Rebalancer& rebalancer, const StripeDescriber& describer)
      : store_(store),
        names_(names),
        servers_(servers),
        chunks_(chunks),
        rebalancer_(rebalancer),
        describer_(describer) {}
  void register_on(rpc::Server& server);

 private:
  using Empty = proto::Empty;
  asio::awaitable<Status> list_servers(Context context, const Empty& request,
                                       proto::ListServersResponse& response);
  asio::awaitable<Status> show_stripe(Context context, const proto::ShowStripeRequest& request,
                                      proto::ShowStripeResponse& response);
  asio::awaitable<Status> fsck(Context context, const proto::FsckRequest& request,
                               proto::FsckResponse& response);
  /// What heartbeats say of open work, for as long as no monitor says more.
  asio::awaitable<Status> diagnose(Context context, const proto::DiagnoseRequest& request,
                                   proto::DiagnoseResponse& response);
  asio::awaitable<Status> ping(Context context, const Empty& request, Empty& response);

  proto::ServerState state_of(const ServerRecord& server) const;
  Status describe_stripe(StripeId id, proto::ShowStripeResponse& response) const;

  MetaStore& store_;
  const NamespaceParts& names_;
  const ServerParts& servers_;
  const ChunkParts& chunks_;
  const Rebalancer& rebalancer_;
  const StripeDescriber& describer_;
};

}  // namespace kintsugi::metaserver
