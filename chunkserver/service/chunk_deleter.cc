#include "chunkserver/service/chunk_deleter.h"

#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kDelete{"chunkserver.delete_chunk"};

}  // namespace

void ChunkDeleter::start() {
  store_.set_listener(this);
  tasks_.spawn(run());
}

asio::awaitable<void> ChunkDeleter::stop() {
  tasks_.request_stop();
  wakeup_.notify_all();
  co_await tasks_.join();
  store_.set_listener(nullptr);
}

void ChunkDeleter::on_write(ChunkId id) {
  if (valid_orders_.erase(id) > 0)
    log::info("chunk {} is not deleted, because it is being written again", id);
}

bool ChunkDeleter::order(ChunkId id) {
  if (queue_.size() + failed_.size() >= kMaxOrders) return false;
  const uint64_t number = ordered_through_ + 1;
  if (!valid_orders_.emplace(id, number).second) return true;
  ordered_through_ = number;
  open_.insert(number);
  queue_.push_back({id, number});
  wakeup_.notify_all();
  return true;
}

bool ChunkDeleter::is_valid(const Order& order) const {
  const auto valid = valid_orders_.find(order.id);
  return valid != valid_orders_.end() && valid->second == order.number;
}

void ChunkDeleter::close(const Order& order) {
  if (is_valid(order)) valid_orders_.erase(order.id);
  open_.erase(order.number);
}

void ChunkDeleter::note_hung_disk(ChunkId id) {
  if (const auto disk = store_.disk_of(id)) hung_disks_.insert(*disk);
}

bool ChunkDeleter::take_kept() {
  if (hung_disks_.empty()) return false;
  const std::vector<DiskReport> disks = store_.disk_reports();
  const auto answers = [&](uint32_t disk) { return disks.at(disk).condition != DiskCondition::kHung; };
  return std::erase_if(hung_disks_, answers) > 0;
}

asio::awaitable<void> ChunkDeleter::run() {
  while (!tasks_.stopping()) {
    try_failed_again();
    leave_held_up();
    begin_deletes();
    co_await wakeup_.wait_until(due());
  }
}

void ChunkDeleter::try_failed_again() {
  if (failed_.empty() || runtime_.clock.now() < retry_at_) return;
  queue_.insert(queue_.end(), failed_.begin(), failed_.end());
  failed_.clear();
}

void ChunkDeleter::leave_held_up() {
  std::erase_if(under_way_, [&](const auto& begun) {
    if (runtime_.clock.now() < begun.second + kHeldUpAfter) return false;
    open_.erase(begun.first);
    ++held_up_;
    return true;
  });
}

void ChunkDeleter::begin_deletes() {
  while (!queue_.empty() && under_way_.size() < kDeletesAtOnce && held_up_ < kMostHeldUp) {
    const Order order = queue_.front();
    queue_.pop_front();
    if (!is_valid(order)) {
      close(order);
      continue;
    }
    under_way_.emplace(order.number, runtime_.clock.now());
    tasks_.spawn(carry_out(order));
  }
}

TimePoint ChunkDeleter::due() const {
  TimePoint due = failed_.empty() ? TimePoint::max() : retry_at_;
  for (const auto& [number, began] : under_way_)
    due = std::min(due, began + kHeldUpAfter);
  return due;
}

asio::awaitable<void> ChunkDeleter::carry_out(Order order) {
  sight::BackgroundTask module{recorder_.root_context(), kDelete};
  const Status removed = co_await store_.remove(module.context(), order.id);
  module.set_code(removed.code());
  const bool held_up = under_way_.erase(order.number) == 0;
  if (held_up) --held_up_;
  wakeup_.notify_all();
  // A disk that is read-only or hangs keeps the chunk. The next block report names it again, so others are carried out.
  const bool kept = removed.code() == Code::kReadOnlyDevice || removed.code() == Code::kUnavailable;
  if (removed.code() == Code::kUnavailable || held_up) note_hung_disk(order.id);
  if (removed.ok() || removed.code() == Code::kNotFound || kept || held_up || !is_valid(order)) {
    close(order);
    co_return;
  }
  log::warning("chunk {} cannot be deleted yet: {}", order.id, removed.to_string());
  if (failed_.empty()) retry_at_ = runtime_.clock.now() + kRetryAfter;
  failed_.push_back(order);
}

}  // namespace kintsugi::chunkserver
