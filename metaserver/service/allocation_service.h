/// The RPCs that choose servers for the chunks of a stripe which a client is going to write.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/meta_state.h"

namespace kintsugi::metaserver {

/// One function for each RPC. `state` must outlive it.
class AllocationService {
 public:
  explicit AllocationService(MetaState& state) : state_(state) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> allocate_stripe(Context context, const proto::AllocateStripeRequest& request,
                                          proto::AllocateStripeResponse& response);
  asio::awaitable<Status> replace_chunk(Context context, const proto::ReplaceChunkRequest& request,
                                        proto::ReplaceChunkResponse& response);

  Status allocate(const proto::AllocateStripeRequest& request, proto::AllocateStripeResponse& response);
  Status replace(const proto::ReplaceChunkRequest& request, proto::ReplaceChunkResponse& response);

  MetaState& state_;
};

}  // namespace kintsugi::metaserver
