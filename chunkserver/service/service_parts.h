/// What the RPC handlers of a chunkserver work with, and what they count.
#pragma once

#include "chunkserver/repair/repair_parts.h"
#include "chunkserver/service/traffic.h"
#include "chunkserver/store/chunk_store.h"
#include "common/rpc/secret.h"
#include "common/runtime/buffer_pool.h"
#include "common/runtime/runtime.h"

namespace kintsugi::chunkserver {

struct ServiceCounters {
  uint64_t bytes_read = 0;                                        ///< sent to readers
  uint64_t bytes_written = 0;                                     ///< received from writers
  uint64_t user_bytes = 0;                                        ///< of both, without background reads
  uint64_t reads = 0, writes = 0, partial_sums = 0, repairs = 0;  ///< calls that began
  uint64_t failures = 0;                                          ///< calls that ended with an error
  uint32_t repairs_running = 0;                                   ///< partial sums and repairs
  RecentRate user_rate;                                           ///< of user_bytes
  size_t users_served = 0;                                        ///< reads and writes of users that run

  void add_user_bytes(uint64_t bytes, TimePoint now) {
    user_bytes += bytes;
    user_rate.add(bytes, now);
  }
};

/// Outlives every call.
struct ServiceParts {
  const runtime::Runtime& runtime;
  const rpc::Secret& secret;
  ChunkStore& store;
  runtime::BufferPool& buffers;
  RepairParts& repair;
  ServiceCounters& counters;
};

/// A call waits no longer than this for a buffer, whatever its deadline.
inline constexpr Duration kBufferWaitLimit = std::chrono::seconds(30);

}  // namespace kintsugi::chunkserver
