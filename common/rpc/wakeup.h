/// The cheapest wait there is: one coroutine waits, another wakes it. No allocation beyond asio's own, no timer.
#pragma once

#include <optional>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/base/assert.h"
#include "common/runtime/network.h"

namespace kintsugi::rpc {

/// An executor whose `execute` always queues: a coroutine that is woken never runs inside the one that wakes it.
inline asio::any_io_executor queueing(const asio::any_io_executor& executor) {
  return asio::require(executor, asio::execution::blocking.never);
}

/// A latch for one waiter that resets when its wait ends. Single-threaded. REQUIRES: nobody waits when it
/// is destroyed (asserted).
class Wakeup {
 public:
  explicit Wakeup(const asio::any_io_executor& executor) : executor_(queueing(executor)) {}
  ~Wakeup() { KINTSUGI_ASSERT(!waiter_); }
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  /// Returns at the next notify, or soon when one came already.
  asio::awaitable<void> wait() {
    return asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [this](Waiter waiter) {
          KINTSUGI_ASSERT(!waiter_);
          waiter_.emplace(std::move(waiter));
          if (notified_) wake();
        },
        asio::use_awaitable);
  }

  void notify() {
    notified_ = true;
    if (waiter_) wake();
  }

 private:
  using Waiter = asio::async_result<asio::use_awaitable_t<>, void()>::handler_type;

  void wake() {
    notified_ = false;
    Waiter waiter = std::move(*waiter_);
    waiter_.reset();
    executor_.execute([waiter = std::move(waiter)]() mutable { waiter(); });
  }

  asio::any_io_executor executor_;
  std::optional<Waiter> waiter_;
  bool notified_ = false;
};

}  // namespace kintsugi::rpc
