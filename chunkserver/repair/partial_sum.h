/// The PartialSum RPC: one node of a repair tree.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/repair/rebuilt_chunk.h"
#include "chunkserver/repair/repair_pacer.h"
#include "chunkserver/repair/running_trees.h"
#include "common/proto/chunk.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/stream.h"

namespace kintsugi::chunkserver {

class PartialSums {
 public:
  /// References outlive every call.
  PartialSums(const runtime::Runtime& runtime, ChunkStore& store, runtime::BufferPool& buffers,
              rpc::Client& client, RepairPacer& pacer, RunningTrees& trees)
      : runtime_(runtime), store_(store), buffers_(buffers), client_(client), pacer_(pacer), trees_(trees) {}

  /// Streams the partial sum of one repair subtree to `out`, slice by slice, in chunk order, and then its timings.
  ///
  /// Asks every child for its sum, multiplies the local chunk by this node's coefficients and XORs them. A slice is
  /// sent as soon as all children delivered theirs, so a tree of any depth is pipelined. Chunks that the node is to
  /// store are rebuilt in the same pass. Cancelled as a whole when `out` closes.
  /// Errors: kNotFound (no such chunk), kCorrupt (CRC mismatch, names the block), kUnavailable (a child failed, blames
  /// it), kInvalidArgument (the tree or its range), kLimitExceeded (memory, RunningTrees::kMaxTrees).
  asio::awaitable<Status> stream(Context context, const proto::PartialSumRequest& request, rpc::Stream& out);

 private:
  class Call;

  const runtime::Runtime& runtime_;
  ChunkStore& store_;
  runtime::BufferPool& buffers_;
  rpc::Client& client_;
  RepairPacer& pacer_;
  RunningTrees& trees_;
};

}  // namespace kintsugi::chunkserver
