#include "chunkserver/store/surplus_copies.h"

#include "chunkserver/store/copies.h"
#include "chunkserver/store/store_root.h"
#include "common/log/log.h"

namespace kintsugi::chunkserver {

void SurplusCopies::add(ChunkIndex::Entry copy) {
  copies_.push_back(copy);
  added_.notify_all();
}

asio::awaitable<void> SurplusCopies::run(runtime::TaskGroup& tasks) {
  const auto stop = tasks.on_stop([this] { added_.notify_all(); });
  while (!tasks.stopping()) {
    // Each that is here now is looked at once; those whose disk hangs go to the end.
    for (size_t left = copies_.size(); left > 0 && !tasks.stopping(); --left) {
      const ChunkIndex::Entry copy = copies_.front();
      copies_.pop_front();
      if (copy.root->disk.failed()) continue;
      if (copy.root->disk.answers()) {
        co_await remove(copy);
      } else {
        copies_.push_back(copy);
      }
    }
    if (tasks.stopping()) co_return;
    (void)co_await added_.wait_until(copies_.empty() ? TimePoint::max() : clock_.now() + kLookAgain);
  }
}

asio::awaitable<void> SurplusCopies::remove(ChunkIndex::Entry copy) {
  const ChunkId id = copy.info.id;
  const auto claim = co_await index_.claim(id, copy.root);
  if (!claim) co_return add(copy);
  const ChunkIndex::Entry* used = index_.find(id);
  if (used == nullptr) co_return co_await use(copy);
  // A newer copy may stand under the same name on that disk by now, and one that differs may be the right one.
  if (used->root == copy.root || !(used->info == copy.info)) co_return;
  const Status removed = co_await remove_copy(Context{}, copy);
  if (!removed.ok())
    log::warning("the second copy of chunk {} cannot be removed: {}", id, removed.to_string());
}

asio::awaitable<void> SurplusCopies::use(ChunkIndex::Entry copy) {
  // A newer copy that stood under its name may have taken it along.
  const auto opened = co_await open_copy(copy);
  if (!opened || !((*opened)->info == copy.info) || copy.root->disk.failed()) co_return;
  log::info("chunk {} is used from disk {}: its other copy was deleted or lost", copy.info.id,
            copy.root->disk.root());
  copy.generation = 0;  // the index assigns a new one
  index_.insert(copy);
  ++used_;
}

}  // namespace kintsugi::chunkserver
