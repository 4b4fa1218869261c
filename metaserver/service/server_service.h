/// The RPCs of chunkservers (registration, heartbeats, block reports), and that with which readers tell of bad chunks.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/cluster_parts.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/server_watch.h"

namespace kintsugi::metaserver {

/// One function for each RPC. References must outlive it.
class ServerService {
 public:
  /// `watch` is told over which connection each server speaks.
  ServerService(MetaStore& store, ClusterParts& cluster, ServerWatch& watch)
      : store_(store), cluster_(cluster), watch_(watch) {}
  void register_on(rpc::Server& server);

 private:
  using Empty = proto::Empty;
  asio::awaitable<Status> register_server(Context context, const proto::RegisterServerRequest& request,
                                          proto::RegisterServerResponse& response);
  asio::awaitable<Status> heartbeat(Context context, const proto::HeartbeatRequest& request,
                                    proto::HeartbeatResponse& response);
  asio::awaitable<Status> block_report(Context context, const proto::BlockReportRequest& request,
                                       Empty& response);
  /// A part of a page. `complete`: it was the last one of the report.
  asio::awaitable<Status> take_report(Context context, const proto::BlockReportRequest& page, bool& complete);
  asio::awaitable<Status> report_chunk(Context context, const proto::ReportChunkRequest& request,
                                       Empty& response);
  /// Asks for a block report when the wait for a disk that hangs is over, and when it answers again.
  void watch_disks(ServerId server, const proto::HeartbeatRequest& request);

  MetaStore& store_;
  ClusterParts& cluster_;
  ServerWatch& watch_;
};

}  // namespace kintsugi::metaserver
