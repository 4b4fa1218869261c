/// What all parts of one client share.
#pragma once

#include <set>

#include "client/lib/health.h"
#include "client/lib/memory.h"
#include "client/lib/meta_link.h"
#include "client/lib/options.h"
#include "client/lib/server_gates.h"
#include "common/rpc/client.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

struct Core {
  Core(const runtime::Runtime& the_runtime, Options the_options, rpc::Secret secret)
      : runtime(the_runtime),
        options(std::move(the_options)),
        background(runtime),
        rpc(runtime, secret),
        meta(runtime, options.metaserver, options.retry_limit, rpc, background),
        memory(runtime, options.memory_bytes),
        health(runtime.clock),
        gates(runtime) {}

  TimePoint now() const { return runtime.clock.now(); }

  const runtime::Runtime runtime;
  const Options options;
  runtime::TaskGroup background;  ///< what nobody waits for: lagging fetches, reports
  rpc::Client rpc;
  MetaLink meta;
  Memory memory;
  ServerHealth health;
  ServerGates gates;
  FetchTimes fetch_times;
  std::set<ChunkId> reported;  ///< chunks already reported missing or corrupt
};

/// A bulk stream may last this long; what it must not do is stand still (rpc::kStreamIdleLimit).
inline constexpr Duration kStreamLimit = std::chrono::hours(4);
/// Waiting for memory that other transfers of this client hold.
inline constexpr Duration kMemoryLimit = std::chrono::minutes(10);

}  // namespace kintsugi::client
