/// Sends a node's sums to its parent.
#pragma once

#include <vector>

#include "common/proto/chunk.pb.h"
#include "common/rpc/stream.h"
#include "common/runtime/clock.h"
#include "partial_sum/pace.h"

namespace kintsugi::chunkserver {

/// Frames of at most 1 MiB; what is zero at the end of a part is only announced. References outlive it.
class SumSender {
 public:
  /// `outputs`: the sums that are sent; empty: all. `pace` may be null.
  SumSender(const runtime::Clock& clock, rpc::Stream& stream, std::vector<uint32_t> outputs,
            partial_sum::Pace* pace)
      : clock_(clock), stream_(stream), outputs_(std::move(outputs)), pace_(pace) {}

  asio::awaitable<Status> send(uint64_t offset, std::span<const std::span<std::byte>> sums,
                               uint64_t nonzero_bytes);
  /// Shows that the node lives.
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
  std::vector<asio::const_buffer> payload_;
  double send_seconds_ = 0;
  uint64_t bytes_out_ = 0;
};

}  // namespace kintsugi::chunkserver
