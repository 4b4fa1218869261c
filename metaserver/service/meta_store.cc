#include "metaserver/service/meta_store.h"

#include "common/runtime/fault_points.h"
#include "metaserver/namespace/changes.h"
#include "metaserver/namespace/snapshot_saving.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::metaserver {

namespace {

/// The region from handing the batch over until it is synced.
constexpr sight::Site kCommitBatch{"metaserver.commit_batch"};
/// The region in which an answer waits until clients have heard that what they were told before has changed.
constexpr sight::Site kBreakPromises{"metaserver.break_promises"};

}  // namespace

Context MetaStore::background_context() const {
  return options.recorder != nullptr ? options.recorder->root_context() : Context{};
}

Status MetaStore::check_inline_room(const Transaction& transaction, uint64_t bytes) {
  KINTSUGI_TRY(room.check());
  const uint64_t kept = total_inline_bytes(transaction);
  if (room.has(StoreRoom::kReserveBytes + options.inline_bytes) && kept + bytes <= options.inline_bytes)
    return {};
  return {Code::kLimitExceeded, fmt::format("the metadata keeps {} bytes of files, and takes no more", kept)};
}

asio::awaitable<Status> MetaStore::finish_read(Context context, Status done) {
  if (kv.is_durable()) co_return done;
  const sight::Wait wait(context, sight::WaitKind::kStore);
  const Status durable = co_await kv.durable();
  co_return durable.ok() ? std::move(done) : durable;
}

asio::awaitable<Status> MetaStore::finish_repeated(Context context, Status done) {
  co_await followers_.clients.promises.await_heard(followers_.clients.promises.unheard());
  co_return co_await finish_read(context, std::move(done));
}

asio::awaitable<Status> MetaStore::finish(Context context, Status done, Transaction& transaction,
                                          FreedStripes freed) {
  if (done.ok()) done = followers_.names.quotas.account(transaction);
  // Also a refusal was derived from writes that may still be on their way.
  if (!done.ok()) co_return co_await finish_read(context, std::move(done));
  save_for_snapshots(followers_.names.snapshots, transaction, freed);
  KINTSUGI_FAULT_POINT(runtime.faults, kintsugi::runtime::FaultPoint::kStoreCommit);
  // Others read what is pending, so it counts as changed from here on: nothing runs in between. Should the batch not
  // become durable, the store fails as a whole and the process ends, so memory is never ahead of what reads show.
  followers_.names.settling.follow(transaction);
  followers_.names.snapshots.follow(transaction);
  followers_.names.trash.follow(transaction);
  followers_.names.quotas.follow(transaction);
  followers_.servers.follow(transaction);
  Promises::Hearers hearers = followers_.clients.promises.note_change(transaction);
  {
    sight::Module module(context, kCommitBatch);
    const sight::Wait wait(module.context(), sight::WaitKind::kStore);
    const Status committed = co_await kv.commit(transaction.take());
    // Here as if the store had never said that it is durable.
    KINTSUGI_FAULT_POINT(runtime.faults, kintsugi::runtime::FaultPoint::kComplete, "commit");
    KINTSUGI_CO_TRY(module.finish(committed));
  }
  followers_.garbage.wake_all_of(freed);
  for (const auto& [id, stripe] : freed) {
    followers_.chunks.forget(id, stripe);
    followers_.host->stripe_deleted(id);
  }
  if (!hearers.empty()) {
    sight::Module module(context, kBreakPromises);
    const sight::Wait wait(module.context(), sight::WaitKind::kResource);
    co_await followers_.clients.promises.await_heard(std::move(hearers));
  }
  co_return Status{};
}

Status about_inode(const Status& status, uint64_t inode) {
  return status.ok() ? status : Status{status.code(), fmt::format("inode {} {}", inode, status.message())};
}

}  // namespace kintsugi::metaserver
