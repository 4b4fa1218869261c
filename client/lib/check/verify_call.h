/// One VerifyChunks call: a server reads some of its chunks from the disks and says how each is.
#pragma once

#include <span>

#include <boost/asio/awaitable.hpp>

#include "client/lib/check/checked_chunk.h"
#include "common/proto/chunk.pb.h"

namespace kintsugi::client {

/// Takes what a call brings, as it comes.
class VerdictSink {
 public:
  virtual ~VerdictSink() = default;
  virtual void read(uint64_t bytes) = 0;
  /// An error ends the call. It may wait; the next verdict is taken only then.
  virtual asio::awaitable<Status> verified(const CheckedChunk& chunk, const proto::VerifiedChunk& found) = 0;
};

struct VerifyEnd {
  size_t verified = 0;  ///< how many chunks, from the first on, were verified
  /// Errors of VerifyChunksHandler::serve; kUnavailable or kDeadlineExceeded: the server does not answer; kCorrupt: its
  /// verdicts do not match the chunks.
  Status call;
  Status refused;  ///< error of the sink
};

/// Asks the server of the first chunk for all of them. Verdicts come in the order of the chunks; also a call that fails
/// may have brought some. REQUIRES: all arguments live until the call has ended, and the chunks are on one server.
asio::awaitable<VerifyEnd> verify_chunks(Resources& resources, Context context,
                                         std::span<const CheckedChunk> chunks, uint64_t bytes_per_second,
                                         VerdictSink& sink);

}  // namespace kintsugi::client
