#include "chunkserver/store/late_disk.h"

#include <deque>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "chunkserver/store/disk_step.h"
#include "chunkserver/store/owner.h"
#include "common/log/log.h"

namespace kintsugi::chunkserver {
namespace {

constexpr size_t kChunksOfATurn = 1000;

asio::awaitable<Status> make_ready(StoreRoot& root, Identity identity) {
  KINTSUGI_CO_TRY(co_await root.disk.prepare());
  KINTSUGI_CO_TRY(co_await read_identity(root));
  KINTSUGI_CO_TRY(check_identity(root, identity));
  co_return co_await keep_identity(root, std::move(identity));
}

}  // namespace

asio::awaitable<bool> LateDisk::wait_for_steps(const StoreRoot& root) {
  while (root.steps > 0) {
    const bool goes_on = co_await tasks_.sleep_for(kLookEvery);
    if (!goes_on) co_return false;
  }
  co_return !tasks_.stopping();
}

asio::awaitable<Status> LateDisk::step(StoreRoot& root, asio::awaitable<Status> work) {
  std::vector<DiskStep> steps;
  steps.push_back({&root, std::move(work)});
  const std::vector<Status> done = co_await run_side_by_side(runtime_, tasks_, kJoinsLater, std::move(steps));
  co_return done.front();
}

asio::awaitable<Status> LateDisk::start(StoreRoot& root, std::shared_ptr<ChunkLoader> chunks,
                                        const Identity& identity) {
  KINTSUGI_CO_TRY(co_await step(root, root.guard.lock(tasks_, runtime_.clock)));
  KINTSUGI_CO_TRY(co_await step(root, make_ready(root, identity)));
  co_return co_await step(root, find_chunks(std::move(chunks)));
}

asio::awaitable<LateDisk::Found> LateDisk::find(StoreRoot& hung, const Identity& identity) {
  const bool answers = co_await wait_for_steps(hung);
  if (!answers) co_return Found{};
  hung.guard.release();
  log::info("disk {} answers: looking for its chunks", hung.disk.root());
  for (int attempt = 1;; ++attempt) {
    Found found{make_root(runtime_, options_, hung.position), nullptr};
    StoreRoot& root = *found.root;
    found.chunks = std::make_shared<ChunkLoader>(runtime_, root);
    const Status started = co_await start(root, found.chunks, identity);
    // Whatever is under way refers to it, also when nobody waits for that.
    const bool goes_on = co_await wait_for_steps(root);
    if (started.ok() && !root.disk.failed() && goes_on) co_return found;
    root.guard.release();
    if (!goes_on) co_return Found{};
    const bool hung_again = started.code() == Code::kUnavailable;
    if (hung_again && attempt < kMostAttempts) continue;
    log::error("disk {} cannot be used after all: {}; repair the disk and start the server again",
               root.disk.root(), started.to_string());
    co_return Found{};
  }
}

asio::awaitable<size_t> merge(const runtime::Runtime& runtime, std::vector<ChunkIndex::Entry> found,
                              ChunkIndex& index, SurplusCopies& surplus, runtime::TaskGroup& tasks) {
  std::deque<ChunkIndex::Entry> left(found.begin(), found.end());
  size_t put = 0, looked_at = 0;
  while (!left.empty()) {
    for (size_t round = left.size(); round > 0; --round) {
      const ChunkIndex::Entry copy = left.front();
      left.pop_front();
      // A disk that failed has left the index already: nothing of it may come back.
      if (tasks.stopping() || copy.root->disk.failed()) co_return put;
      // Whoever changes the chunk just now knows nothing of this copy, and comes first.
      const auto claim = index.try_claim(copy.info.id, copy.root);
      if (!claim) left.push_back(copy);
      const ChunkIndex::Entry* here = index.find(copy.info.id);
      if (claim && here == nullptr) {
        index.insert(copy);
        ++put;
      } else if (claim && here->root != copy.root) {
        surplus.add(copy);
      }
      if (++looked_at % kChunksOfATurn == 0) co_await asio::post(runtime.executor, asio::use_awaitable);
    }
    if (!left.empty()) (void)co_await tasks.sleep_for(LateDisk::kLookEvery);
  }
  co_return put;
}

}  // namespace kintsugi::chunkserver
