/// Takes the sums of a tree.
#pragma once

#include <cstddef>
#include <span>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/runtime/network.h"

namespace kintsugi::partial_sum {

class SumSink {
 public:
  virtual ~SumSink() = default;
  /// Takes the next complete part of every sum, in order: all slices, or those that the tree carries. `offset` is in
  /// the sub-chunk; the sums are zero from `nonzero_bytes` on. The memory is the caller's again on return.
  virtual asio::awaitable<Status> put(uint64_t offset, std::span<const std::span<std::byte>> sums,
                                      uint64_t nonzero_bytes) = 0;
  /// Called every kTreeIdleInterval while the next part is not complete yet.
  virtual asio::awaitable<Status> idle() = 0;
};

/// Shorter than rpc::kStreamIdleLimit: an unsliced tree has nothing to say for long, and must not be taken for dead.
inline constexpr Duration kTreeIdleInterval = std::chrono::seconds(10);

}  // namespace kintsugi::partial_sum
