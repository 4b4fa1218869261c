/// The RPCs on names: directories, attributes, policies.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/chunks/block_reports.h"
#include "metaserver/repair/stripe_health.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/service/server_parts.h"
#include "metaserver/sessions/clients.h"

namespace kintsugi::metaserver {

/// One function for each RPC. References outlive it.
class NamespaceService {
 public:
  NamespaceService(MetaStore& store, NamespaceParts& names, Clients& clients, const ServerParts& servers,
                   const StripeHealth& health, const BlockReports& reports)
      : store_(store),
        names_(names),
        clients_(clients),
        servers_(servers),
        health_(health),
        reports_(reports) {}
  void register_on(rpc::Server& server);

 private:
  Status list_path(const proto::ListRequest& request, proto::ListResponse& response) const;
  using Empty = proto::Empty;
  asio::awaitable<Status> stat(Context context, const proto::StatRequest& request,
                               proto::StatResponse& response);
  asio::awaitable<Status> list(Context context, const proto::ListRequest& request,
                               proto::ListResponse& response);
  /// Checks that a caller who is not root may remove everything below the directory: it may change each directory
  /// there. Others get their turn meanwhile. kAccessDenied, with the path.
  asio::awaitable<Status> check_tree(const proto::RemoveRequest& request);
  /// Does check_tree() and waits until nobody keeps anything back of the directories of the path, nor, of what a caller
  /// who is not root removes, below it. kUnavailable.
  asio::awaitable<Status> settle_and_check(Context context, const proto::RemoveRequest& request);
  asio::awaitable<Status> make_directory(Context context, const proto::MakeDirectoryRequest& request,
                                         Empty& response);
  asio::awaitable<Status> remove(Context context, const proto::RemoveRequest& request, Empty& response);
  asio::awaitable<Status> rename(Context context, const proto::RenameRequest& request, Empty& response);
  asio::awaitable<Status> set_policy(Context context, const proto::SetPolicyRequest& request,
                                     Empty& response);
  asio::awaitable<Status> get_policy(Context context, const proto::GetPolicyRequest& request,
                                     proto::GetPolicyResponse& response);
  asio::awaitable<Status> list_policies(Context context, const Empty& request,
                                        proto::ListPoliciesResponse& response);
  asio::awaitable<Status> disk_usage(Context context, const proto::DiskUsageRequest& request,
                                     proto::DiskUsageResponse& response);
  asio::awaitable<Status> disk_free(Context context, const Empty& request, proto::DiskFreeResponse& response);

  MetaStore& store_;
  NamespaceParts& names_;
  Clients& clients_;
  const ServerParts& servers_;
  const StripeHealth& health_;
  const BlockReports& reports_;
};

}  // namespace kintsugi::metaserver
