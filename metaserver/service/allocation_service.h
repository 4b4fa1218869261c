/// The RPCs that choose servers for the chunks of a stripe which a client is going to write.
#pragma once

#include "common/rpc/server.h"
#include "erasure/policy.h"
#include "metaserver/chunks/uploads.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/service/new_stripes.h"
#include "metaserver/service/server_parts.h"
#include "metaserver/service/stripe_describer.h"

namespace kintsugi::metaserver {

/// One function for each RPC. References outlive it.
class AllocationService {
 public:
  AllocationService(MetaStore& store, NamespaceParts& names, ServerParts& servers, NewStripes& new_stripes,
                    Uploads& uploads, const StripeDescriber& describer)
      : store_(store),
        names_(names),
        servers_(servers),
        new_stripes_(new_stripes),
        uploads_(uploads),
        describer_(describer) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> allocate_stripe(Context context, const proto::AllocateStripeRequest& request,
                                          proto::AllocateStripeResponse& response);
  asio::awaitable<Status> replace_chunk(Context context, const proto::ReplaceChunkRequest& request,
                                        proto::ReplaceChunkResponse& response);

  struct Policies {
    erasure::Policy file;         ///< policy recorded with the file
    erasure::Policy stripe;       ///< `file`, or copies (docs/decisions/007-small-files-are-replicated.md)
    bool copies_of_file = false;  ///< the stripe is the whole file, stored as copies
  };

  /// The servers of a new stripe by index. When there are fewer than it has chunks, the last chunks are nowhere, as
  /// long as the stripe may lack them.
  Result<std::vector<ServerId>> choose(const Policies& policies, const proto::AllocateStripeRequest& request);
  /// Servers that are known but not heard of yet may come within moments: then it waits for them.
  asio::awaitable<void> wait_for_servers(Context context, const Policies& policies);
  Result<Policies> policies_for(const proto::AllocateStripeRequest& request) const;
  Status allocate(const proto::AllocateStripeRequest& request, const Policies& policies,
                  proto::AllocateStripeResponse& response);
  Status replace(const proto::ReplaceChunkRequest& request, proto::ReplaceChunkResponse& response);

  MetaStore& store_;
  NamespaceParts& names_;
  ServerParts& servers_;
  NewStripes& new_stripes_;
  Uploads& uploads_;
  const StripeDescriber& describer_;
};

}  // namespace kintsugi::metaserver
