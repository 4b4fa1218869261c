/// What a metaserver does by itself about names and clients, without being asked: it frees what nobody names any more,
/// in small steps, and ends sessions of clients that are silent.
#pragma once

#include <functional>

#include <boost/asio/awaitable.hpp>

#include "common/runtime/task_group.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/sessions/clients.h"

namespace kintsugi::metaserver {

class NamespaceUpkeep {
 public:
  /// References outlive it, and are loaded when it starts.
  NamespaceUpkeep(MetaStore& store, NamespaceParts& names, Clients& clients)
      : store_(store), names_(names), clients_(clients), tasks_(store.runtime) {}

  void start();
  /// No new step begins.
  void request_stop() { tasks_.request_stop(); }
  asio::awaitable<void> join() { return tasks_.join(); }

 private:
  using Step = std::function<bool(Transaction&, FreedStripes&)>;
  /// Repeats steps of work, each a transaction, until none is left, and looks for more after a pause.
  asio::awaitable<void> step_forever(Step step);
  asio::awaitable<void> expire_sessions_forever();
  /// Does not remember (any more) a session that has ended, or what it changed.
  asio::awaitable<Status> forget(uint64_t session, bool ended_by_silence);

  MetaStore& store_;
  NamespaceParts& names_;
  Clients& clients_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::metaserver
