#include "chunkserver/store/store_start.h"

#include "chunkserver/store/disk_step.h"
#include "chunkserver/store/owner.h"

namespace kintsugi::chunkserver {
namespace {

/// Keeps the loader for as long as the work takes.
asio::awaitable<Status> make_ready(StoreRoot& root) {
  KINTSUGI_CO_TRY(co_await root.disk.prepare());
  co_return co_await read_identity(root);
}

}  // namespace

std::vector<StoreRoot*> StoreStart::usable() const {
  std::vector<StoreRoot*> usable;
  for (const auto& root : roots_) {
    if (!root->disk.failed()) usable.push_back(root.get());
  }
  return usable;
}

void StoreStart::drop(StoreRoot& root, const Status& why) {
  if (why.code() == Code::kUnavailable) hung_.push_back(&root);
  root.disk.fail(why);
}

asio::awaitable<Status> StoreStart::lock() {
  std::vector<DiskStep> steps;
  const std::vector<StoreRoot*> roots = usable();
  for (StoreRoot* root : roots)
    steps.push_back({root, root->guard.lock(tasks_, runtime_.clock)});
  const std::vector<Status> locked =
      co_await run_side_by_side(runtime_, tasks_, kJoinsLater, std::move(steps));
  for (const Status& one : locked) {
    if (one.code() == Code::kConflict) co_return one;
  }
  for (size_t i = 0; i < roots.size(); ++i) {
    if (!locked[i].ok()) drop(*roots[i], locked[i]);
  }
  co_return Status{};
}

asio::awaitable<Result<Identity>> StoreStart::prepare() {
  std::vector<DiskStep> steps;
  const std::vector<StoreRoot*> roots = usable();
  for (StoreRoot* root : roots)
    steps.push_back({root, make_ready(*root)});
  const std::vector<Status> ready =
      co_await run_side_by_side(runtime_, tasks_, kJoinsLater, std::move(steps));
  for (size_t i = 0; i < roots.size(); ++i) {
    if (ready[i].code() == Code::kCorrupt || ready[i].code() == Code::kNotSupported) co_return ready[i];
    if (!ready[i].ok()) drop(*roots[i], ready[i]);
  }
  KINTSUGI_CO_ASSIGN(Identity identity, agree_on_identity(roots_, runtime_.random));
  steps.clear();
  const std::vector<StoreRoot*> known = usable();
  for (StoreRoot* root : known)
    steps.push_back({root, keep_identity(*root, identity)});
  const std::vector<Status> kept = co_await run_side_by_side(runtime_, tasks_, kJoinsLater, std::move(steps));
  for (size_t i = 0; i < known.size(); ++i) {
    if (!kept[i].ok()) drop(*known[i], kept[i]);
  }
  co_return identity;
}

asio::awaitable<void> StoreStart::load(ChunkIndex& index) {
  std::vector<std::shared_ptr<ChunkLoader>> loaders;
  std::vector<DiskStep> steps;
  for (StoreRoot* root : usable()) {
    loaders.push_back(std::make_shared<ChunkLoader>(runtime_, *root));
    steps.push_back({root, find_chunks(loaders.back())});
  }
  const std::vector<Status> found =
      co_await run_side_by_side(runtime_, tasks_, kJoinsLater, std::move(steps));
  for (size_t i = 0; i < loaders.size(); ++i) {
    ChunkLoader& loader = *loaders[i];
    if (!found[i].ok()) drop(loader.root(), found[i]);
    if (loader.root().disk.failed()) continue;
    loader.put_into(index);
    unusable_.insert(unusable_.end(), loader.unusable().begin(), loader.unusable().end());
    surplus_.insert(surplus_.end(), loader.surplus().begin(), loader.surplus().end());
  }
}

}  // namespace kintsugi::chunkserver
