/// The RepairChunk RPC: the root of a repair tree, which stores the chunk it gets back.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/repair/partial_sum.h"
#include "common/proto/chunk.pb.h"

namespace kintsugi::chunkserver {

/// Opens the children, writes the sum through a ChunkWriter while slices arrive, proves the CRC and commits.
///
/// The same chunk may be here already, whole or not: the one that was proven replaces it. After an error
/// nothing is stored. Errors: kCorrupt (the chunk does not match its CRC, names the helpers' chunks),
/// kUnavailable and others of the children (name the server), kAlreadyExists (another chunk of this name),
/// kNoSpace, kInvalidArgument.
///
/// A request without children for a repair that runs here ends that one with kCancelled: whoever asked for it
/// has given it up, and its helpers are to be free. Nothing is stored unless the chunk was being committed.
asio::awaitable<Result<proto::RepairChunkResponse>> repair_chunk(Context context, RepairParts& parts,
                                                                 ServerId self,
                                                                 const proto::RepairChunkRequest& request);

}  // namespace kintsugi::chunkserver
