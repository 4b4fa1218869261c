#include "metaserver/kv/durability_barrier.h"

#include <boost/asio/post.hpp>

#include "common/base/assert.h"

namespace kintsugi::metaserver {

asio::awaitable<Status> DurabilityBarrier::enqueue(uint64_t sequence) {
  return asio::async_initiate<const asio::use_awaitable_t<>, void(Status)>(
      [this, sequence](Handler handler) {
        // Whoever comes later waits for the same batch or a later one, so that the queue is in order by itself.
        KINTSUGI_ASSERT(waiters_.empty() || waiters_.back().sequence <= sequence);
        waiters_.push_back({sequence, std::move(handler)});
      },
      asio::use_awaitable);
}

asio::awaitable<Status> DurabilityBarrier::wait(uint64_t sequence) {
  KINTSUGI_ASSERT(sequence <= issued_);
  if (sequence <= durable_) co_return Status{};
  if (!failure_.ok()) co_return failure_;
  co_return co_await enqueue(sequence);
}

void DurabilityBarrier::wake_front(Status status) {
  // Posted, not called: a waiter that ran inside of advance() might commit, or wait, before the rest have been woken.
  asio::post(executor_, [handler = std::move(waiters_.front().handler),
                         status = std::move(status)]() mutable { handler(std::move(status)); });
  waiters_.pop_front();
}

void DurabilityBarrier::advance(uint64_t sequence) {
  if (!failure_.ok()) return;
  KINTSUGI_ASSERT(sequence <= issued_ && sequence >= durable_);
  durable_ = sequence;
  while (!waiters_.empty() && waiters_.front().sequence <= durable_)
    wake_front({});
}

void DurabilityBarrier::fail(Status why) {
  const bool first = failure_.ok();
  if (first) failure_ = std::move(why);
  while (!waiters_.empty())
    wake_front(failure_);
  if (first) on_failure_(failure_);
}

}  // namespace kintsugi::metaserver
