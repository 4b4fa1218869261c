#include "metaserver/service/background_work.h"

#include <boost/asio/post.hpp>

#include "metaserver/namespace/changes.h"
#include "metaserver/namespace/reclaim.h"
#include "metaserver/namespace/snapshot_deletion.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kStep{"metaserver.background_step"};
constexpr sight::Site kRebalance{"metaserver.rebalance"};
constexpr sight::Site kExpireUploads{"metaserver.expire_uploads"};
constexpr sight::Site kExpireSessions{"metaserver.expire_sessions"};
constexpr sight::Site kExpireQuarantine{"metaserver.expire_quarantine"};
constexpr Duration kReclaimPause = std::chrono::milliseconds(200);
/// Pause between two steps of a pass over all files.
constexpr Duration kStepPause = std::chrono::milliseconds(50);
constexpr Duration kPassPause = std::chrono::minutes(10);  ///< pause between two passes
/// Between steps, and between passes, over the chunks that cannot be read.
constexpr Duration kHealthStepPause = std::chrono::milliseconds(10), kHealthPause = std::chrono::seconds(1);

}  // namespace

void BackgroundWork::start() {
  tasks_.spawn(watch_servers());
  tasks_.spawn(tell_missing_after_grace());
  const auto held = [this](InodeId inode) { return clients_.sessions.held(inode); };
  tasks_.spawn(
      step_forever([held, reclaim = Reclaim()](Transaction& transaction, FreedStripes& freed) mutable {
        return reclaim.step(transaction, held, freed);
      }));
  tasks_.spawn(step_forever(
      [this](Transaction& transaction, FreedStripes&) { return names_.quotas.mark_step(transaction); }));
  tasks_.spawn(step_forever(
      [this, deletion = SnapshotDeletion()](Transaction& transaction, FreedStripes& freed) mutable {
        return deletion.step(names_.snapshots, transaction, freed);
      }));
  tasks_.spawn(step_forever([this, held](Transaction& transaction, FreedStripes& freed) {
    return names_.trash.expire_step(transaction, names_.inodes, held, freed);
  }));
  tasks_.spawn(look_at_layouts_forever());
  tasks_.spawn(count_degraded_stripes_forever());
  tasks_.spawn(expire_uploads_forever());
  tasks_.spawn(expire_sessions_forever());
  tasks_.spawn(expire_quarantine_forever());
  tasks_.spawn(rebalance_forever());
}

asio::awaitable<void> BackgroundWork::watch_servers() {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(store_.options.heartbeat_interval / 4);
    if (!slept) co_return;
    for (ServerId died : cluster_.servers.check_liveness()) {
      cluster_.caches.server_died(died);
      cluster_.host->server_dead(died);
      cluster_.servers_changed.notify_all();
    }
  }
}

asio::awaitable<void> BackgroundWork::tell_missing_after_grace() {
  const bool slept = co_await tasks_.sleep_for(store_.options.dead_after);
  if (!slept) co_return;
  // Only now: their repairs need helpers, and the servers that live have come back by this time.
  constexpr size_t kPage = 2000;  // losses reported between two pauses, in which other work runs
  ChunkId after;
  for (size_t told = kPage; told == kPage && !tasks_.stopping();) {
    told = 0;
    cluster_.scan_chunks_of(ServerId{}, after, [&](ChunkId chunk) {
      cluster_.host->chunk_lost(chunk, "missing since the write");
      after = chunk;
      return ++told < kPage;
    });
    co_await asio::post(store_.runtime.executor, asio::use_awaitable);
  }
}

asio::awaitable<void> BackgroundWork::step_forever(Step step) {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(kReclaimPause);
    if (!slept) co_return;
    while (!tasks_.stopping()) {
      Transaction transaction(store_.kv);
      FreedStripes freed;
      if (!step(transaction, freed)) break;
      // Nobody waits for this change, so no quota refuses it.
      (void)names_.quotas.account(transaction, false);
      const sight::BackgroundTask task{context(), kStep};
      const Status status = co_await store_.finish(task.context(), Status(), transaction, std::move(freed));
      if (!status.ok()) break;  // the step is repeated, unless the store has failed, which ends the process
    }
  }
}

Context BackgroundWork::context() const {
  return store_.options.recorder != nullptr ? store_.options.recorder->root_context() : Context{};
}

asio::awaitable<void> BackgroundWork::look_at_layouts_forever() {
  bool more = false;
  while (co_await tasks_.sleep_for(more ? kStepPause : kPassPause))
    more =
        cluster_.compactions.scan_step(Reader(store_.kv), store_.inline_is_crowded(Transaction(store_.kv)));
}

asio::awaitable<void> BackgroundWork::count_degraded_stripes_forever() {
  bool more = false;
  while (co_await tasks_.sleep_for(more ? kHealthStepPause : kHealthPause))
    more = cluster_.health.step(Reader(store_.kv));
}

asio::awaitable<void> BackgroundWork::rebalance_forever() {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(Rebalancer::kInterval);
    if (!slept) co_return;
    if (!cluster_.host->anybody_repairs()) {
      cluster_.rebalancer.forget_wanted();
      continue;
    }
    const sight::BackgroundTask task{context(), kRebalance};
    const Rebalancer::Changes changes = cluster_.rebalancer.step(store_.kv);
    for (ServerId from : changes.cancelled)
      cluster_.host->moves_cancelled(from);
    for (const WantedMove& move : changes.wanted)
      cluster_.host->move_wanted(move);
  }
}

asio::awaitable<void> BackgroundWork::expire_uploads_forever() {
  const Duration pause = std::min<Duration>(store_.options.upload_idle / 8, 5s);
  TimePoint last = store_.runtime.clock.now();
  while (true) {
    const bool slept = co_await tasks_.sleep_for(pause);
    if (!slept) co_return;
    // A process that was stopped for a while, or could not write, must not give everybody up because it heard nobody.
    const Duration took = store_.runtime.clock.now() - std::exchange(last, store_.runtime.clock.now());
    if (took > 2 * pause) cluster_.uploads.stood_still(took - pause);
    while (!tasks_.stopping()) {
      Transaction transaction(store_.kv);
      FreedStripes freed;
      std::vector<ServerId> servers;
      if (!cluster_.uploads.expire_step(transaction, freed, servers)) break;
      const sight::BackgroundTask task{context(), kExpireUploads};
      const Status status = co_await store_.finish(task.context(), Status(), transaction, std::move(freed));
      if (!status.ok()) co_return;
      for (ServerId server : servers)
        cluster_.garbage.wake(server);
    }
  }
}

asio::awaitable<void> BackgroundWork::expire_sessions_forever() {
  constexpr Duration kPause = std::chrono::seconds(1);
  TimePoint last = store_.runtime.clock.now();
  while (true) {
    const bool slept = co_await tasks_.sleep_for(kPause);
    if (!slept) co_return;
    const Duration took = store_.runtime.clock.now() - std::exchange(last, store_.runtime.clock.now());
    if (took > 2 * kPause) clients_.sessions.stood_still(took - kPause);
    // One after the other, each in a turn of its own: see end_if_silent().
    for (const uint64_t session : clients_.sessions.silent()) {
      // The client came back while others were being noted.
      if (!clients_.end_if_silent(session)) continue;
      if (!(co_await forget(session, true)).ok()) co_return;
    }
    for (const uint64_t session : clients_.sessions.take_ended()) {
      if (clients_.sessions.known(session) || clients_.sessions.ended_by_silence(session)) continue;
      if (!(co_await forget(session, false)).ok()) co_return;
    }
    for (const uint64_t session : clients_.sessions.to_forget()) {
      if (clients_.sessions.known(session)) continue;
      if (!(co_await forget(session, false)).ok()) co_return;
    }
  }
}

asio::awaitable<Status> BackgroundWork::forget(uint64_t session, bool ended_by_silence) {
  Transaction transaction(store_.kv);
  // One that was silent may ask again for what it changed.
  if (ended_by_silence) {
    note_ended(transaction, session);
  } else {
    forget_changes(transaction, session);
  }
  const sight::BackgroundTask task{context(), kExpireSessions};
  co_return co_await store_.finish(task.context(), Status(), transaction);
}

asio::awaitable<void> BackgroundWork::expire_quarantine_forever() {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(Quarantine::kTick);
    if (!slept) co_return;
    bool more = true;
    while (more && !tasks_.stopping() && !cluster_.history.doubt()) {
      Transaction transaction(store_.kv);
      std::vector<ServerId> servers;
      more = cluster_.quarantine.step(transaction, servers);
      const sight::BackgroundTask task{context(), kExpireQuarantine};
      const Status status = co_await store_.finish(task.context(), Status(), transaction);
      if (!status.ok()) co_return;
      for (ServerId server : servers)
        cluster_.garbage.wake(server);
    }
  }
}

}  // namespace kintsugi::metaserver
