/// The RepairChunk RPC: the root of a repair tree, which stores the chunk it gets back; EndRepair gives it up.
#pragma once

#include <list>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/repair/rebuilt_chunk.h"
#include "chunkserver/repair/repair_pacer.h"
#include "chunkserver/repair/running_trees.h"
#include "common/proto/chunk.pb.h"
#include "common/rpc/client.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {

class TreeSum;

class RepairSite {
 public:
  /// References outlive every call.
  RepairSite(const runtime::Runtime& runtime, ChunkStore& store, runtime::BufferPool& buffers,
             rpc::Client& client, RepairPacer& pacer, RunningTrees& trees)
      : runtime_(runtime), store_(store), buffers_(buffers), client_(client), pacer_(pacer), trees_(trees) {}

  /// Opens the children, writes the sum through a ChunkWriter while slices arrive, proves the CRC and commits; the
  /// response has the timings of all servers.
  ///
  /// The chunk may be here already, whole or not: the one that was proven replaces it. After an error nothing is
  /// stored. Errors: kCorrupt (the chunk does not match its CRC, names the helpers' chunks), kUnavailable and others of
  /// the children (blame the server), kAlreadyExists (another chunk of this name), kNoSpace, kInvalidArgument.
  asio::awaitable<Status> repair_chunk(Context context, const proto::RepairChunkRequest& request,
                                       proto::RepairChunkResponse& response);

  /// Ends that repair with kCancelled, if it runs here, so that its helpers are free. Nothing is stored unless the
  /// chunk was being committed.
  void end_repair(const proto::EndRepairRequest& request);

 private:
  class Root;

  asio::awaitable<Status> rebuild(const proto::RepairChunkRequest& request,
                                  const proto::PartialSumRequest& below, const partial_sum::SumRange& range,
                                  sight::Module& module, proto::RepairChunkResponse& response);

  const runtime::Runtime& runtime_;
  ChunkStore& store_;
  runtime::BufferPool& buffers_;
  rpc::Client& client_;
  RepairPacer& pacer_;
  RunningTrees& trees_;
  std::list<Root*> roots_;  ///< chunks that are being rebuilt here
};

}  // namespace kintsugi::chunkserver
