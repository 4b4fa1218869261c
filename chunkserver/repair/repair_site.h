/// The RepairChunk RPC: the root of a repair tree, which stores the chunk it gets back; EndRepair gives it
/// up.
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
asio::awaitable<Result<proto::RepairChunkResponse>> repair_chunk(Context context, RepairParts& parts,
                                                                 ServerId self,
                                                                 const proto::RepairChunkRequest& request);

/// Ends that repair with kCancelled, if it runs here: its helpers are to be free. Nothing is stored unless
/// the chunk was being committed.
void end_repair(RepairParts& parts, const proto::EndRepairRequest& request);

}  // namespace kintsugi::chunkserver
