/// One VerifyChunks call: a server reads some of its chunks from the disks and says how each is.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "client/lib/check/checked_chunk.h"
#include "common/proto/chunk.pb.h"

namespace kintsugi::client {

/// Asks the server of the first chunk for all of them. `verdicts` gets one for each chunk, in their order, as they come:
/// also a call that fails may have brought some. `on_bytes` is told of bytes that were read. Errors: those of
/// ChunkVerifier::serve; kUnavailable, kDeadlineExceeded: the server does not answer; kCorrupt: not in this way.
/// REQUIRES: all arguments live until the call has ended, and the chunks are on one server.
asio::awaitable<Status> verify_chunks(Resources& resources, Context context,
                                      std::span<const CheckedChunk> chunks, uint64_t bytes_per_second,
                                      const std::function<void(uint64_t)>& on_bytes,
                                      std::vector<proto::VerifiedChunk>& verdicts);

}  // namespace kintsugi::client
