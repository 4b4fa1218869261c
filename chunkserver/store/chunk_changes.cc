#include "chunkserver/store/chunk_changes.h"

#include "chunkserver/store/copies.h"
#include "chunkserver/store/disk/disk_wait.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kRemove{"chunkserver.remove_chunk"};

}  // namespace

Status ChunkChanges::check_not_removed(ChunkId id) {
  if (!removed_lately_.when(id, runtime_.clock.now())) return {};
  return {Code::kConflict, fmt::format("chunk {} was removed from here a short while ago", id)};
}

asio::awaitable<Status> ChunkChanges::commit(Context context, FinishedChunk chunk) {
  const DataDisk& disk = chunk.root.disk;
  const auto abandoned = std::make_shared<Abandoned>();
  // Not a coroutine itself: every chunk that is written passes here.
  return calls_.wait_for(disk, carry_out_commit(context, std::move(chunk), abandoned), abandoned);
}

asio::awaitable<Status> ChunkChanges::carry_out_commit(Context context, FinishedChunk chunk,
                                                       std::shared_ptr<const Abandoned> abandoned) {
  const ChunkId id = chunk.header.info.id;
  tell_of_write(id);
  std::optional<ChunkIndex::Claim> claim = chunks_.index().try_claim(id, &chunk.root);
  Status status;
  if (!claim) {
    sight::Wait wait(context, sight::WaitKind::kResource, runtime::named_target(context, "claims of chunks"));
    auto waited = co_await chunks_.index().claim(id, &chunk.root);
    wait.stop();
    if (waited)
      claim.emplace(std::move(*waited));
    else
      status = waited.error();
  }
  // Held until what is left of a commit that failed is gone: it may have the name that the next one gives its file.
  SharedClaim held;
  if (status.ok()) {
    held = std::make_shared<ChunkIndex::Claim>(std::move(*claim));
    status = co_await commit_claimed(context, chunk, *abandoned, held);
  }
  if (!status.ok() && chunk.file) co_await chunk.file->discard();
  co_return status;
}

asio::awaitable<Status> ChunkChanges::commit_claimed(Context context, FinishedChunk& chunk,
                                                     const Abandoned& abandoned, SharedClaim claim) {
  const ChunkInfo info = chunk.header.info;
  StoreRoot& root = chunk.root;
  if (const auto removed = removed_lately_.when(info.id, runtime_.clock.now());
      removed && *removed > chunk.began)
    co_return Status{Code::kConflict, "it was removed from here while it was written"};
  const bool in_segment = chunk.file == nullptr;
  // The new copy takes the place of an equal one, whose bytes nobody looked at lately.
  std::optional<Entry> old;
  if (const Entry* here = chunks_.index().find(info.id)) {
    if (here->info != info) co_return Status{Code::kAlreadyExists, "another chunk of this name is here"};
    old = *here;
  }
  const bool same_place = old && old->root == &root && old->in_segment == in_segment;
  KINTSUGI_CO_TRY(root.disk.check_answers());
  if (in_segment) {
    KINTSUGI_CO_TRY(co_await root.segments.append(context, std::move(chunk.header),
                                                  std::move(chunk.block_crcs), chunk.data.bytes));
    // Whoever waited was told that nothing is here. A record that has taken the place of an equal one stays.
    if (abandoned.value) {
      if (!same_place) KINTSUGI_CO_TRY(co_await root.segments.remove(context, info.id));
      co_return Status{Code::kCancelled, "nobody waits for it any more"};
    }
  } else {
    DiskWait wait(context, root.disk);
    KINTSUGI_CO_TRY(wait.finish(
        co_await chunk.file->commit(std::move(chunk.header), chunk.block_crcs, same_place, abandoned)));
  }
  // The chunk is durable from here on. A disk that failed meanwhile has left the index, and nothing may come back
  // to it.
  if (root.disk.failed()) co_return Status{Code::kIoError, "the disk of the chunk failed"};
  chunks_.erase(info.id);
  chunks_.index().insert({info, &root, in_segment});
  ++committed_;
  // Last, so that there is a copy on some disk at every moment. After a crash in between, both are there and equal.
  if (old && !same_place && !old->root->disk.failed()) {
    claim->uses(*old->root);
    (void)co_await calls_.wait_for(old->root->disk, remove_replaced(context, *old, std::move(claim)));
  }
  co_return Status{};
}

asio::awaitable<Status> ChunkChanges::remove_replaced(Context context, Entry old, SharedClaim) {
  if (!old.root->disk.answers()) {
    chunks_.surplus().add(old);
    co_return Status{};
  }
  const ChunkId id = old.info.id;
  Status removed = co_await remove_copy(context, old);
  if (!removed.ok() && removed.code() != Code::kNotFound)
    log::warning("a replaced copy of chunk {} stays on disk {}: {}", id, old.root->disk.root(),
                 removed.to_string());
  co_return removed;
}

asio::awaitable<Status> ChunkChanges::remove(Context context, ChunkId id) {
  sight::Module module{context, kRemove};
  sight::Wait wait(module.context(), sight::WaitKind::kResource,
                   runtime::named_target(context, "claims of chunks"));
  const Entry* here = chunks_.index().find(id);
  const auto claim = co_await chunks_.index().claim(id, here == nullptr ? nullptr : here->root);
  wait.stop();
  if (!claim) co_return module.finish(claim.error());
  co_return module.finish(co_await remove_claimed(module.context(), id));
}

asio::awaitable<Status> ChunkChanges::remove_claimed(Context context, ChunkId id) {
  if (const Entry* here = chunks_.index().find(id)) KINTSUGI_CO_TRY(here->root->disk.check_answers());
  removed_lately_.add(id, runtime_.clock.now());
  // Out of the index first: from here on nobody opens it. Readers that have it open keep the file.
  const std::optional<Entry> entry = chunks_.erase(id);
  if (!entry) co_return not_here(id);
  Status status = co_await remove_copy(context, *entry);
  if (status.ok()) {
    ++removed_;
    chunks_.usage().forget(id);
  } else if (status.code() != Code::kNotFound && !entry->root->disk.failed()) {
    chunks_.index().insert(*entry);  // the removal failed: the chunk is still there, as far as is known
  }
  co_return status;
}

void ChunkChanges::discard_later(std::shared_ptr<ChunkFileWriter> file) {
  tasks_.spawn(discard(std::move(file)));
}

asio::awaitable<void> ChunkChanges::discard(std::shared_ptr<ChunkFileWriter> file) {
  co_await file->discard();
}

}  // namespace kintsugi::chunkserver
