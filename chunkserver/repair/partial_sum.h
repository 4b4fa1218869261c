/// The PartialSum RPC: one node of a repair tree.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/repair/tree_sum.h"
#include "common/proto/chunk.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/stream.h"

namespace kintsugi::chunkserver {

/// Streams the partial sum of one repair subtree to `out`, slice by slice, in chunk order, and then its
/// timings.
///
/// Asks every child for its sum, multiplies the local chunk by this node's coefficients and XORs them.
/// A slice is sent as soon as all children delivered theirs, so a tree of any depth is pipelined.
/// Cancelled as a whole when `out` closes.
/// Errors: kNotFound (no such chunk), kCorrupt (CRC mismatch, names the block), kUnavailable (a child failed,
/// names it), kInvalidArgument (the tree or its range), kLimitExceeded (memory, kMaxTrees).
asio::awaitable<Status> stream_partial_sum(Context context, RepairParts& parts,
                                           const proto::PartialSumRequest& request, rpc::Stream& out);

}  // namespace kintsugi::chunkserver
