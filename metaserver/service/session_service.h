/// The RPCs of sessions (common/proto/inode.proto): what clients hold, what they are asked to give back, and their
/// locks.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/cluster/slow_servers.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/sessions/clients.h"

namespace kintsugi::metaserver {

/// One function for each RPC. References outlive it.
class SessionService {
 public:
  SessionService(MetaStore& store, NamespaceParts& names, Clients& clients, const SlowServers& slow)
      : store_(store), names_(names), clients_(clients), slow_(slow) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> keep_session(Context context, const proto::KeepSessionRequest& request,
                                       proto::KeepSessionResponse& response);
  asio::awaitable<Status> await_recalls(Context context, const proto::AwaitRecallsRequest& request,
                                        proto::AwaitRecallsResponse& response);
  /// Checks whether locks can be decided already. kUnavailable: not before everybody has told of locks.
  Status may_ask_for_lock(const proto::LockRequest& request) const;
  Status take_lock(const proto::LockRequest& request, proto::LockResponse& response);
  asio::awaitable<Status> lock(Context context, const proto::LockRequest& request,
                               proto::LockResponse& response);

  MetaStore& store_;
  NamespaceParts& names_;
  Clients& clients_;
  const SlowServers& slow_;
};

}  // namespace kintsugi::metaserver
