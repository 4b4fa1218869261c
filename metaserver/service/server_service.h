/// The RPCs of chunkservers (registration, heartbeats, block reports), and that with which readers tell of bad chunks.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/chunk_parts.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/repair_host.h"
#include "metaserver/service/server_parts.h"
#include "metaserver/service/server_watch.h"

namespace kintsugi::metaserver {

/// One function for each RPC. References must outlive it.
class ServerService {
 public:
  /// `watch` is told over which connection each server speaks.
  ServerService(MetaStore& store, ServerParts& servers, ChunkParts& chunks, const RepairHostSlot& host,
                ServerWatch& watch)
      : store_(store), servers_(servers), chunks_(chunks), host_(host), watch_(watch) {}
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
  /// The chunk is where the stripe says and cannot be read: it counts as lost, and the host is told if that is new.
  /// `proven`: see ChunkMap::set_lost. False: that server is not its place (any more), and nothing happened.
  bool report_lost(ChunkId chunk, ServerId server, const std::string& why, bool proven);
  /// Asks for a block report when the wait for a disk that hangs is over, and when it answers again.
  void watch_disks(ServerId server, const proto::HeartbeatRequest& request);

  MetaStore& store_;
  ServerParts& servers_;
  ChunkParts& chunks_;
  const RepairHostSlot& host_;
  ServerWatch& watch_;
};

}  // namespace kintsugi::metaserver
