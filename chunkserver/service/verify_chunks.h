/// The VerifyChunks RPC, once the caller's rights are proven.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/service/counters.h"
#include "chunkserver/store/chunk_store.h"
#include "common/proto/chunk.pb.h"
#include "common/rpc/stream.h"
#include "common/runtime/event.h"

namespace kintsugi::chunkserver {

/// Reads chunks from the disks, one after the other, and says how each is. A damaged one is dropped and told as lost by
/// whoever reads it (ChunkReader).
///
/// Keeps to the rate that is asked for. While users are served it reads at half of that, and without a rate it rests
/// for as long as it reads. Memory of a call: kPieceBytes.
class VerifyChunksHandler {
 public:
  static constexpr int kMaxChunks = 1024;   ///< limit for one call
  static constexpr uint32_t kMaxCalls = 2;  ///< limit for calls that run at the same time
  /// A slower server would look dead to the caller.
  static constexpr uint64_t kLeastBytesPerSecond = 64 << 10;
  static constexpr size_t kPieceBytes = 1 << 20;  ///< largest single read
  /// Longest time between two frames while nothing is found.
  static constexpr Duration kTellInterval = std::chrono::milliseconds(500);
  static constexpr int kToldAtOnce = 64;  ///< verdicts that are collected for one frame, at most

  /// References outlive every call.
  VerifyChunksHandler(const runtime::Runtime& runtime, ChunkStore& store, ServiceCounters& counters)
      : clock_(runtime.clock), store_(store), counters_(counters), stopped_(runtime) {}

  /// kInvalidArgument: too many chunks, or too low a rate; kLimitExceeded: kMaxCalls run.
  asio::awaitable<Status> serve(Context context, const proto::VerifyChunksRequest& request,
                                rpc::Stream& stream);
  /// Calls that run end soon with kCancelled. Idempotent.
  void stop();

 private:
  class Call;

  runtime::Clock& clock_;
  ChunkStore& store_;
  ServiceCounters& counters_;
  bool stopping_ = false;
  runtime::Event stopped_;  ///< ends pauses early
};

}  // namespace kintsugi::chunkserver
