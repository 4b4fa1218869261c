#include "chunkserver/service/chunk_deleter.h"

#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kDelete{"chunkserver.delete_chunk"};

}  // namespace

void ChunkDeleter::start() {
  store_.on_write = [this](ChunkId id) {
    if (standing_.erase(id) > 0) log::info("chunk {} is written again and not deleted", id);
  };
  tasks_.spawn(run());
}

asio::awaitable<void> ChunkDeleter::stop() {
  tasks_.request_stop();
  wakeup_.notify_all();
  co_await tasks_.join();
  store_.on_write = [](ChunkId) {};
}

bool ChunkDeleter::order(ChunkId id) {
  if (queue_.size() + failed_.size() >= kMaxOrders) return false;
  const uint64_t number = ordered_through_ + 1;
  if (!standing_.emplace(id, number).second) return true;
  ordered_through_ = number;
  open_.insert(number);
  queue_.push_back({id, number});
  wakeup_.notify_all();
  return true;
}

bool ChunkDeleter::stands(const Order& order) const {
  const auto standing = standing_.find(order.id);
  return standing != standing_.end() && standing->second == order.number;
}

void ChunkDeleter::close(const Order& order) {
  if (stands(order)) standing_.erase(order.id);
  open_.erase(order.number);
}

asio::awaitable<void> ChunkDeleter::run() {
  while (!tasks_.stopping()) {
    if (!failed_.empty() && runtime_.clock.now() >= retry_at_) {
      queue_.insert(queue_.end(), failed_.begin(), failed_.end());
      failed_.clear();
    }
    if (queue_.empty() && failed_.empty()) {
      co_await wakeup_.wait();
      continue;
    }
    if (queue_.empty()) {
      co_await wakeup_.wait_until(retry_at_);
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
    const Order order = queue_.front();
    queue_.pop_front();
    if (!stands(order)) {
      close(order);
      continue;
    }
    sight::BackgroundTask module{recorder_.root_context(), kDelete};
    const Status removed = co_await store_.remove(module.context(), order.id);
    module.set_code(removed.code());
    // What a disk keeps that is read-only or hangs, the next block report names again: it must not hold up other orders.
    const bool kept = removed.code() == Code::kReadOnlyDevice || removed.code() == Code::kUnavailable;
    if (removed.ok() || removed.code() == Code::kNotFound || kept || !stands(order)) {
      close(order);
      continue;
    }
    log::warning("chunk {} cannot be deleted yet: {}", order.id, removed.to_string());
    if (failed_.empty()) retry_at_ = runtime_.clock.now() + kRetryAfter;
    failed_.push_back(order);
  }
}

}  // namespace kintsugi::chunkserver
