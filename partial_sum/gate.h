/// Where a node may be held up before it takes in more: a server that limits what repairs cost its users.
#pragma once

#include <cstdint>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/runtime/network.h"

namespace kintsugi::partial_sum {

class Gate {
 public:
  virtual ~Gate() = default;
  /// Returns when `bytes` more may move. The wait is bounded.
  virtual asio::awaitable<void> pass(uint64_t bytes) = 0;
};

}  // namespace kintsugi::partial_sum
