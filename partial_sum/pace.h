/// Where a node may be held up before it moves more bytes: how a server limits what repairs cost its users.
#pragma once

#include <cstdint>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/runtime/network.h"

namespace kintsugi::partial_sum {

class Pace {
 public:
  virtual ~Pace() = default;
  /// Returns when `bytes` more may move. The wait is bounded.
  virtual asio::awaitable<void> pass(uint64_t bytes) = 0;
};

}  // namespace kintsugi::partial_sum
