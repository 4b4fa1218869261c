#include "metaserver/service/namespace_upkeep.h"

#include "metaserver/namespace/changes.h"
#include "metaserver/namespace/reclaim.h"
#include "metaserver/namespace/snapshot_deletion.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kStep{"metaserver.background_step"};
constexpr sight::Site kExpireSessions{"metaserver.expire_sessions"};
constexpr Duration kReclaimPause = std::chrono::milliseconds(200);

}  // namespace

void NamespaceUpkeep::start() {
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
  tasks_.spawn(expire_sessions_forever());
}

asio::awaitable<void> NamespaceUpkeep::step_forever(Step step) {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(kReclaimPause);
    if (!slept) co_return;
    while (!tasks_.stopping()) {
      Transaction transaction(store_.kv);
      FreedStripes freed;
      if (!step(transaction, freed)) break;
      // Nobody waits for this change, so no quota refuses it.
      (void)names_.quotas.account(transaction, false);
      const sight::BackgroundTask task{store_.background_context(), kStep};
      const Status status = co_await store_.finish(task.context(), Status(), transaction, std::move(freed));
      if (!status.ok()) break;  // the step is repeated, unless the store has failed, which ends the process
    }
  }
}

asio::awaitable<void> NamespaceUpkeep::expire_sessions_forever() {
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

asio::awaitable<Status> NamespaceUpkeep::forget(uint64_t session, bool ended_by_silence) {
  Transaction transaction(store_.kv);
  // One that was silent may ask again for what it changed.
  if (ended_by_silence) {
    note_ended(transaction, session);
  } else {
    forget_changes(transaction, session);
  }
  const sight::BackgroundTask task{store_.background_context(), kExpireSessions};
  co_return co_await store_.finish(task.context(), Status(), transaction);
}

}  // namespace kintsugi::metaserver
