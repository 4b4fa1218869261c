/// Counts batches from "handed over" to "durable" and wakes whoever waits for one of them. All stores share it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/base/status.h"

namespace kintsugi {
namespace asio = boost::asio;
}

namespace kintsugi::metaserver {

/// Batches are numbered from 1 in the order of their commits. Single-threaded; waiters wake in the order in which they
/// came, never inside the call that wakes them.
class DurabilityBarrier {
 public:
  /// `on_failure` is called at the first failure.
  explicit DurabilityBarrier(
      asio::any_io_executor executor, std::function<void(const Status&)> on_failure = [](const Status&) {})
      : executor_(std::move(executor)), on_failure_(std::move(on_failure)) {}
  ~DurabilityBarrier() = default;
  DurabilityBarrier(const DurabilityBarrier&) = delete;
  DurabilityBarrier& operator=(const DurabilityBarrier&) = delete;

  /// Numbers the next batch.
  uint64_t issue() { return ++issued_; }
  uint64_t issued() const { return issued_; }
  bool pending() const { return durable_ < issued_; }

  /// Completes when batch `sequence` (already issued) is durable, or with the failure.
  asio::awaitable<Status> wait(uint64_t sequence);

  /// Everything up to `sequence` is durable.
  void advance(uint64_t sequence);
  /// Every present and later wait fails with `why`. The first failure stays.
  void fail(Status why);
  const Status& failure() const { return failure_; }

 private:
  using Handler = asio::async_result<asio::use_awaitable_t<>, void(Status)>::handler_type;
  struct Waiter {
    uint64_t sequence;
    Handler handler;
  };
  asio::awaitable<Status> enqueue(uint64_t sequence);
  void wake_front(Status status);

  asio::any_io_executor executor_;
  std::function<void(const Status&)> on_failure_;
  uint64_t issued_ = 0;
  uint64_t durable_ = 0;
  Status failure_;
  std::deque<Waiter> waiters_;  ///< ordered by the batches that they wait for
};

}  // namespace kintsugi::metaserver
