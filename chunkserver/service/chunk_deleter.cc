#include "chunkserver/service/chunk_deleter.h"

#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kDelete{"chunkserver.delete_chunk"};

}  // namespace

void ChunkDeleter::start() {
  store_.on_write = [this](ChunkId id) { standing_.erase(id); };
  tasks_.spawn(run());
}

asio::awaitable<void> ChunkDeleter::stop() {
  tasks_.request_stop();
  wakeup_.notify_all();
  co_await tasks_.join();
  store_.on_write = [](ChunkId) {};
}

bool ChunkDeleter::order(ChunkId id) {
  if (queue_.size() >= kMaxOrders) return false;
  if (!standing_.insert(id).second) return true;
  queue_.push_back(id);
  ++ordered_through_;
  wakeup_.notify_all();
  return true;
}

asio::awaitable<void> ChunkDeleter::run() {
  while (!tasks_.stopping()) {
    if (queue_.empty()) {
      co_await wakeup_.wait();
      continue;
    }
    // Side by side, so that the tombstones of small chunks share a sync.
    runtime::TaskGroup deletes(runtime_);
    for (size_t i = 0; i < std::min(kDeletesAtOnce, queue_.size()); ++i)
      deletes.spawn(delete_some());
    co_await deletes.join();
  }
}

asio::awaitable<void> ChunkDeleter::delete_some() {
  while (!queue_.empty() && !tasks_.stopping()) {
    const ChunkId id = queue_.front();
    queue_.pop_front();
    const uint64_t number = ++begun_through_;
    if (standing_.erase(id) == 0) continue;  // withdrawn
    running_.insert(number);
    sight::Module module{recorder_.root_context(), kDelete};
    Status removed = co_await store_.remove(module.context(), id);
    if (!removed.ok() && removed.code() != Code::kNotFound) {
      log::warning("chunk {} cannot be deleted: {}", id, removed.to_string());
    }
    module.set_code(removed.code());
    running_.erase(number);
  }
}

}  // namespace kintsugi::chunkserver
