/// What a metaserver does by itself, without being asked: it gives up what is silent, and does what is left over in
/// small steps.
#pragma once

#include <functional>

#include <boost/asio/awaitable.hpp>

#include "common/runtime/context.h"
#include "common/runtime/task_group.h"
#include "metaserver/service/cluster_parts.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/sessions/clients.h"

namespace kintsugi::metaserver {

class BackgroundWork {
 public:
  /// References outlive it, and are loaded when it starts.
  BackgroundWork(MetaStore& store, NamespaceParts& names, ClusterParts& cluster, Clients& clients)
      : store_(store), names_(names), cluster_(cluster), clients_(clients), tasks_(store.runtime) {}

  void start();
  /// No new step begins.
  void request_stop() { tasks_.request_stop(); }
  asio::awaitable<void> join() { return tasks_.join(); }

 private:
  using Step = std::function<bool(Transaction&, FreedStripes&)>;
  /// The context of work for which nobody waits.
  Context context() const;
  /// Repeats steps of work, each a transaction, until none is left, and looks for more after a pause.
  asio::awaitable<void> step_forever(Step step);
  asio::awaitable<void> watch_servers();
  asio::awaitable<void> tell_missing_after_grace();
  asio::awaitable<void> look_at_layouts_forever();
  asio::awaitable<void> count_degraded_stripes_forever();
  asio::awaitable<void> rebalance_forever();
  asio::awaitable<void> expire_uploads_forever();
  asio::awaitable<void> expire_sessions_forever();
  /// Does not remember (any more) a session that has ended, or what it changed.
  asio::awaitable<Status> forget(uint64_t session, bool ended_by_silence);
  asio::awaitable<void> expire_quarantine_forever();

  MetaStore& store_;
  NamespaceParts& names_;
  ClusterParts& cluster_;
  Clients& clients_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::metaserver
