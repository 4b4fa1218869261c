#include "metaserver/service/cluster_upkeep.h"

#include <boost/asio/post.hpp>

#include "metaserver/schema/stripes.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kRebalance{"metaserver.rebalance"};
constexpr sight::Site kExpireUploads{"metaserver.expire_uploads"};
constexpr sight::Site kExpireQuarantine{"metaserver.expire_quarantine"};
/// Pause between two steps of a pass over all files.
constexpr Duration kStepPause = std::chrono::milliseconds(50);
constexpr Duration kPassPause = std::chrono::minutes(10);  ///< pause between two passes
/// Between steps, and between passes, over the chunks that cannot be read.
constexpr Duration kHealthStepPause = std::chrono::milliseconds(10), kHealthPause = std::chrono::seconds(1);

}  // namespace

void ClusterUpkeep::start() {
  tasks_.spawn(watch_servers());
  tasks_.spawn(tell_missing_after_grace());
  tasks_.spawn(look_at_layouts_forever());
  tasks_.spawn(count_degraded_stripes_forever());
  tasks_.spawn(expire_uploads_forever());
  tasks_.spawn(expire_quarantine_forever());
  tasks_.spawn(rebalance_forever());
}

asio::awaitable<void> ClusterUpkeep::watch_servers() {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(store_.options.heartbeat_interval / 4);
    if (!slept) co_return;
    for (ServerId died : servers_.registry.check_liveness()) {
      servers_.caches.server_died(died);
      repairs_.host->server_dead(died);
      servers_.changed.notify_all();
    }
  }
}

asio::awaitable<void> ClusterUpkeep::tell_missing_after_grace() {
  const bool slept = co_await tasks_.sleep_for(store_.options.dead_after);
  if (!slept) co_return;
  // Only now: their repairs need helpers, and the servers that live have come back by this time.
  constexpr size_t kPage = 2000;  // losses reported between two pauses, in which other work runs
  ChunkId after;
  for (size_t told = kPage; told == kPage && !tasks_.stopping();) {
    told = 0;
    scan_chunks_of(store_.kv, ServerId{}, after, [&](ChunkId chunk) {
      repairs_.host->chunk_lost(chunk, "missing since the write");
      after = chunk;
      return ++told < kPage;
    });
    co_await asio::post(store_.runtime.executor, asio::use_awaitable);
  }
}

asio::awaitable<void> ClusterUpkeep::look_at_layouts_forever() {
  bool more = false;
  while (co_await tasks_.sleep_for(more ? kStepPause : kPassPause))
    more =
        repairs_.compactions.scan_step(Reader(store_.kv), store_.inline_is_crowded(Transaction(store_.kv)));
}

asio::awaitable<void> ClusterUpkeep::count_degraded_stripes_forever() {
  bool more = false;
  while (co_await tasks_.sleep_for(more ? kHealthStepPause : kHealthPause))
    more = chunks_.health.step(Reader(store_.kv));
}

asio::awaitable<void> ClusterUpkeep::rebalance_forever() {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(Rebalancer::kInterval);
    if (!slept) co_return;
    if (!repairs_.host->anybody_repairs()) {
      repairs_.rebalancer.forget_wanted();
      continue;
    }
    const sight::BackgroundTask task{store_.background_context(), kRebalance};
    const Rebalancer::Changes changes = repairs_.rebalancer.step(store_.kv);
    for (ServerId from : changes.cancelled)
      repairs_.host->moves_cancelled(from);
    for (const WantedMove& move : changes.wanted)
      repairs_.host->move_wanted(move);
  }
}

asio::awaitable<void> ClusterUpkeep::expire_uploads_forever() {
  const Duration pause = std::min<Duration>(store_.options.upload_idle / 8, 5s);
  TimePoint last = store_.runtime.clock.now();
  while (true) {
    const bool slept = co_await tasks_.sleep_for(pause);
    if (!slept) co_return;
    // A process that was stopped for a while, or could not write, must not give everybody up because it heard nobody.
    const Duration took = store_.runtime.clock.now() - std::exchange(last, store_.runtime.clock.now());
    if (took > 2 * pause) uploads_.stood_still(took - pause);
    while (!tasks_.stopping()) {
      Transaction transaction(store_.kv);
      FreedStripes freed;
      std::vector<ServerId> servers;
      if (!uploads_.expire_step(transaction, freed, servers)) break;
      const sight::BackgroundTask task{store_.background_context(), kExpireUploads};
      const Status status = co_await store_.finish(task.context(), Status(), transaction, std::move(freed));
      if (!status.ok()) co_return;
      for (ServerId server : servers)
        chunks_.garbage.wake(server);
    }
  }
}

asio::awaitable<void> ClusterUpkeep::expire_quarantine_forever() {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(Quarantine::kTick);
    if (!slept) co_return;
    bool more = true;
    while (more && !tasks_.stopping() && !chunks_.history.doubt()) {
      Transaction transaction(store_.kv);
      std::vector<ServerId> servers;
      more = chunks_.quarantine.step(transaction, servers);
      const sight::BackgroundTask task{store_.background_context(), kExpireQuarantine};
      const Status status = co_await store_.finish(task.context(), Status(), transaction);
      if (!status.ok()) co_return;
      for (ServerId server : servers)
        chunks_.garbage.wake(server);
    }
  }
}

}  // namespace kintsugi::metaserver
