/// The RPCs for metadata that is older than the chunks beside it: its state, the decision to continue with it, and the
/// chunks in quarantine.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/cluster/server_names.h"
#include "metaserver/service/chunk_parts.h"
#include "metaserver/service/meta_store.h"

namespace kintsugi::metaserver {

/// One function for each RPC. References outlive it.
class HistoryService {
 public:
  HistoryService(MetaStore& store, ChunkParts& chunks, const ServerNames& servers)
      : store_(store), chunks_(chunks), servers_(servers) {}
  void register_on(rpc::Server& server);

 private:
  using Empty = proto::Empty;
  asio::awaitable<Status> metadata_status(Context context, const Empty& request,
                                          proto::MetadataStatusResponse& response);
  asio::awaitable<Status> accept_metadata(Context context, const Empty& request, Empty& response);
  asio::awaitable<Status> list_quarantine(Context context, const proto::ListQuarantineRequest& request,
                                          proto::ListQuarantineResponse& response);
  asio::awaitable<Status> change_quarantine(Context context, const proto::ChangeQuarantineRequest& request,
                                            proto::ChangeQuarantineResponse& response);

  MetaStore& store_;
  ChunkParts& chunks_;
  const ServerNames& servers_;
};

}  // namespace kintsugi::metaserver
