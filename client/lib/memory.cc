#include "client/lib/memory.h"

#include <algorithm>
#include <utility>

#include "common/base/assert.h"

namespace kintsugi::client {

Lease::Lease(Lease&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), count_(std::exchange(other.count_, 0)) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    if (count_ > 0) memory_->give_back(count_);
    memory_ = std::exchange(other.memory_, nullptr);
    count_ = std::exchange(other.count_, 0);
  }
  return *this;
}

Lease::~Lease() {
  if (count_ > 0) memory_->give_back(count_);
}

Lease Lease::split(size_t count) {
  KINTSUGI_ASSERT(count <= count_);
  count_ -= count;
  return Lease(memory_, count);
}

void Lease::add(Lease more) {
  if (more.count_ == 0) return;
  memory_ = more.memory_;
  count_ += std::exchange(more.count_, 0);
}

Memory::Memory(const runtime::Runtime& runtime, size_t bytes)
    : total_(bytes / kBufferBytes), free_(total_), freed_(runtime), pool_(runtime, total_, kBufferBytes) {}

asio::awaitable<Result<Lease>> Memory::reserve(size_t count, TimePoint deadline) {
  if (count > total_) {
    co_return Status{
        Code::kLimitExceeded,
        fmt::format("{} MiB of memory are needed at once, the client may use {} MiB", count, total_)};
  }
  const uint64_t ticket = next_ticket_++;
  waiting_.push_back(ticket);
  bool in_time = true;
  while (in_time && (waiting_.front() != ticket || free_ < count))
    in_time = co_await freed_.wait_until(deadline);
  const bool granted = waiting_.front() == ticket && free_ >= count;
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), ticket));
  freed_.notify_all();  // the next in line may be served too
  if (!granted) co_return Status{Code::kDeadlineExceeded, "waiting for memory"};
  free_ -= count;
  co_return Lease(this, count);
}

Lease Memory::try_reserve(size_t count) {
  if (!waiting_.empty() || free_ < count) return {};
  free_ -= count;
  return Lease(this, count);
}

runtime::Buffer Memory::take() {
  runtime::Buffer buffer = pool_.try_acquire();
  KINTSUGI_ASSERT(buffer);
  return buffer;
}

void Memory::give_back(size_t count) {
  free_ += count;
  if (!waiting_.empty()) freed_.notify_all();
}

}  // namespace kintsugi::client
