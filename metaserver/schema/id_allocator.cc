#include "metaserver/schema/id_allocator.h"

#include "common/log/log.h"
#include "common/proto/store.pb.h"
#include "metaserver/schema/keys.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

IdAllocator::IdAllocator(const runtime::Runtime& runtime, KeyValueStore& store, std::string name)
    : store_(store), name_(std::move(name)), random_(runtime.random), tasks_(runtime) {}

asio::awaitable<Status> IdAllocator::start() {
  const auto stored = Reader(store_).get_message<proto::StoredCounter>(keys::counter(name_));
  if (stored) former_limit_ = stored->next();
  first_ = next_ = limit_ = stored ? stored->next() + random_.next() % kMostSkipped : kFirst;
  co_return co_await reserve();
}

asio::awaitable<void> IdAllocator::stop() {
  co_await tasks_.stop();
}

asio::awaitable<Status> IdAllocator::reserve() {
  const uint64_t limit = limit_ + kRange;
  proto::StoredCounter counter;
  counter.set_next(limit);
  Batch batch;
  batch.put(keys::counter(name_), counter.SerializeAsString());
  const Status status = co_await store_.commit(std::move(batch));
  // Only now: an id that was given out before its range is durable might be given out again after a crash.
  if (status.ok()) limit_ = limit;
  co_return status.with_context("reserve ids");
}

asio::awaitable<void> IdAllocator::reserve_in_background() {
  const Status status = co_await reserve();
  if (!status.ok()) log::error("{}", status.to_string());
  reserving_ = false;
}

Result<uint64_t> IdAllocator::take() {
  if (limit_ - next_ < kRange / 2 && !reserving_ && !tasks_.stopping()) {
    reserving_ = true;
    tasks_.spawn(reserve_in_background());
  }
  if (next_ >= limit_) return Status{Code::kUnavailable, "no " + name_ + " ids are reserved yet"};
  return next_++;
}

}  // namespace kintsugi::metaserver
