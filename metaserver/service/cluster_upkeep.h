/// What a metaserver does by itself about servers and chunks, without being asked: it gives up what is silent, and does
/// what is left over in small steps.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "common/runtime/task_group.h"
#include "metaserver/chunks/uploads.h"
#include "metaserver/service/chunk_parts.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/repair_parts.h"
#include "metaserver/service/server_parts.h"

namespace kintsugi::metaserver {

class ClusterUpkeep {
 public:
  /// References outlive it, and are loaded when it starts.
  ClusterUpkeep(MetaStore& store, ServerParts& servers, ChunkParts& chunks, Uploads& uploads,
                RepairParts& repairs)
      : store_(store),
        servers_(servers),
        chunks_(chunks),
        uploads_(uploads),
        repairs_(repairs),
        tasks_(store.runtime) {}

  void start();
  /// No new step begins.
  void request_stop() { tasks_.request_stop(); }
  asio::awaitable<void> join() { return tasks_.join(); }

 private:
  asio::awaitable<void> watch_servers();
  asio::awaitable<void> tell_missing_after_grace();
  asio::awaitable<void> look_at_layouts_forever();
  asio::awaitable<void> count_degraded_stripes_forever();
  asio::awaitable<void> rebalance_forever();
  asio::awaitable<void> expire_uploads_forever();
  asio::awaitable<void> expire_quarantine_forever();

  MetaStore& store_;
  ServerParts& servers_;
  ChunkParts& chunks_;
  Uploads& uploads_;
  RepairParts& repairs_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::metaserver
