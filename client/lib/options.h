/// Settings of a client. Everything else it learns from the metaserver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/runtime/clock.h"
#include "common/runtime/network.h"

namespace kintsugi::sight {
class Recorder;
}

namespace kintsugi::client {

/// For whom operations on paths are done: the metaserver checks permissions for it, and what is made belongs to it.
struct ActingUser {
  uint32_t uid = 0, gid = 0;
  std::vector<uint32_t> groups;  ///< supplementary groups
};

struct Options {
  runtime::Endpoint metaserver;
  /// Bound on all file data in flight, whatever the number and size of files. At least kMinMemoryBytes.
  size_t memory_bytes = size_t{128} << 20;
  /// An operation that may be repeated is retried so long while the metaserver does not answer.
  Duration retry_limit = std::chrono::seconds(30);
  /// A chunk that lags is never replaced sooner than this. Without HedgeBudget it has longer.
  Duration hedge_floor = std::chrono::milliseconds(10);
  Duration late_hedge_floor = std::chrono::milliseconds(100);
  ActingUser user;                      ///< root if not set
  sight::Recorder* recorder = nullptr;  ///< null: nothing is recorded
};

inline constexpr size_t kMinMemoryBytes = size_t{64} << 20;

}  // namespace kintsugi::client
