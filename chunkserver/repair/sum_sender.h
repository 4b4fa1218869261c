/// Sends a node's sums to its parent.
#pragma once

#include <vector>

#include "common/proto/chunk.pb.h"
#include "common/rpc/stream.h"
#include "common/runtime/clock.h"
#include "partial_sum/pace.h"

namespace kintsugi::chunkserver {

/// Sends frames of at most 1 MiB; zeros at the end of a part are only announced. References outlive it.
class SumSender {
 public:
  /// `outputs` are the numbers of the sums that are sent; empty: all. With a `pace`, that is passed before each frame.
  /// `context` is looked at when something is sent.
  SumSender(const runtime::Clock& clock, rpc::Stream& stream, std::vector<uint32_t> outputs,
            partial_sum::Pace* pace, const Context& context)
      : clock_(clock), stream_(stream), outputs_(std::move(outputs)), pace_(pace), context_(context) {}

  /// The next part of every sum, which is zero from `nonzero_bytes` on.
  asio::awaitable<Status> send(uint64_t offset, std::span<const std::span<std::byte>> sums,
                               uint64_t nonzero_bytes);
  /// Sends an empty frame, which shows that the node lives.
  asio::awaitable<Status> send_nothing();

  double send_seconds() const { return send_seconds_; }
  uint64_t bytes_out() const { return bytes_out_; }

 private:
  asio::awaitable<Status> send_frame(uint64_t offset, uint64_t at, uint64_t bytes,
                                     std::span<const std::span<std::byte>> sums);

  const runtime::Clock& clock_;
  rpc::Stream& stream_;
  std::vector<uint32_t> outputs_;
  partial_sum::Pace* pace_;
  const Context& context_;
  std::vector<asio::const_buffer> payload_;
  double send_seconds_ = 0;
  uint64_t bytes_out_ = 0;
};

}  // namespace kintsugi::chunkserver
