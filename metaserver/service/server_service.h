/// The RPCs of chunkservers: registration, heartbeats, block reports. And what readers find wrong with
/// chunks.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/core.h"

namespace kintsugi::metaserver {

/// One function for each RPC. `core` must outlive it.
class ServerService {
 public:
  explicit ServerService(Core& core) : core_(core) {}
  void register_on(rpc::Server& server);

  /// The chunk is where the stripe says and cannot be read: it counts as lost. False: that is not its place
  /// (any more).
  bool report_lost(ChunkId chunk, ServerId server, const std::string& why, bool proven);

 private:
  asio::awaitable<Result<proto::RegisterServerResponse>> register_server(
      Context context, proto::RegisterServerRequest request);
  asio::awaitable<Result<proto::HeartbeatResponse>> heartbeat(Context context,
                                                              proto::HeartbeatRequest request);
  asio::awaitable<Result<proto::Empty>> block_report(Context context, proto::BlockReportRequest request);
  asio::awaitable<Result<proto::Empty>> report_chunk(Context context, proto::ReportChunkRequest request);

  Core& core_;
};

}  // namespace kintsugi::metaserver
