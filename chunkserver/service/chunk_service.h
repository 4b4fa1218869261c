/// The RPCs on chunks: each function checks the right to do it, counts the call, and hands it to what does the work.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/service/capability_judge.h"
#include "chunkserver/service/counters.h"
#include "chunkserver/service/read_chunk.h"
#include "chunkserver/service/small_chunks.h"
#include "chunkserver/service/verify_chunks.h"
#include "chunkserver/service/write_chunk.h"
#include "common/proto/chunk.pb.h"
#include "common/proto/types.pb.h"
#include "common/rpc/server.h"

namespace kintsugi::chunkserver {

/// Every call may fail with kPermissionDenied, and otherwise as the function that it is handed to.
class ChunkService {
 public:
  /// References outlive the server's calls.
  ChunkService(const runtime::Runtime& runtime, CapabilityJudge judge, ChunkStore& store,
               runtime::BufferPool& buffers, ServiceCounters& counters);

  /// Maps the methods below. REQUIRES: the server has not started.
  void register_on(rpc::Server& server);
  /// Calls that rest on their own account end soon; all others end with their connections.
  void stop() { verifier_.stop(); }

  asio::awaitable<Status> write_chunk(Context context, const proto::WriteChunkRequest& request,
                                      rpc::Stream& stream);
  asio::awaitable<Status> read_chunk(Context context, const proto::ReadChunkRequest& request,
                                     rpc::Stream& stream);
  asio::awaitable<Status> write_small_chunk(Context context, const proto::WriteSmallChunkRequest& request,
                                            proto::Empty& response);
  asio::awaitable<Status> read_small_chunk(Context context, const proto::ReadSmallChunkRequest& request,
                                           proto::ReadSmallChunkResponse& response);
  asio::awaitable<Status> verify_chunks(Context context, const proto::VerifyChunksRequest& request,
                                        rpc::Stream& stream);
  asio::awaitable<Status> ping(Context, const proto::PingRequest& request, proto::PingResponse& response);

 private:
  const CapabilityJudge judge_;
  ServiceCounters& counters_;
  WriteChunkHandler receiver_;
  ReadChunkHandler sender_;
  SmallChunks small_;
  VerifyChunksHandler verifier_;
};

}  // namespace kintsugi::chunkserver
