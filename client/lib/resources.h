/// The resources that all operations of one client share: connections, memory, and experience with servers.
#pragma once

#include "client/lib/chunk_reports.h"
#include "client/lib/health.h"
#include "client/lib/memory.h"
#include "client/lib/meta_link.h"
#include "client/lib/options.h"
#include "client/lib/server_turns.h"
#include "common/proto/types.pb.h"
#include "common/rpc/client.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// One per Client, which outlives its operations. Each operation uses most of it, so it is passed as a whole.
struct Resources {
  Resources(const runtime::Runtime& the_runtime, Options the_options, rpc::Secret secret)
      : runtime(the_runtime),
        options(std::move(the_options)),
        secret(secret),
        background(runtime),
        rpc(runtime, secret),
        meta(runtime, options.metaserver, options.retry_limit, rpc, background),
        memory(runtime, options.memory_bytes),
        health(runtime.clock),
        fetch_turns(runtime, ServerTurns::kFetchesAtOnce),
        small_write_turns(runtime, ServerTurns::kSmallWritesAtOnce),
        reports(meta, background) {}

  TimePoint now() const { return runtime.clock.now(); }
  /// The root of what is begun here: recorded, below nothing, and without a deadline.
  Context context() const;
  /// Says in a request by path for whom it is made.
  template <class Request>
  void sign(Request& request) const {
    if (options.user.uid == 0) return;
    proto::Caller& caller = *request.mutable_caller();
    caller.set_uid(options.user.uid);
    caller.set_gid(options.user.gid);
    caller.mutable_groups()->Add(options.user.groups.begin(), options.user.groups.end());
  }

  const runtime::Runtime runtime;
  const Options options;
  const rpc::Secret secret;
  runtime::TaskGroup background;  ///< tasks that no operation waits for: slow fetches, reports
  rpc::Client rpc;
  MetaLink meta;
  Memory memory;
  ServerHealth health;
  ServerTurns fetch_turns, small_write_turns;
  FetchTimes fetch_times;
  HedgeBudget hedges;
  WriteWaits write_waits;
  ChunkReports reports;
};

/// A bulk stream may last this long, but must make progress (rpc::kStreamIdleLimit).
inline constexpr Duration kStreamLimit = std::chrono::hours(4);
/// An operation waits so long for memory that other transfers of this client hold.
inline constexpr Duration kMemoryLimit = std::chrono::minutes(10);

}  // namespace kintsugi::client
