/// The way from ordinary code into a coroutine and back: for main functions, blocking client calls and tests.
#pragma once

#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include <boost/asio/awaitable.hpp>

#include "common/runtime/production/production_runtime.h"

namespace kintsugi::runtime {

/// Runs `task` on the runtime's event loop and returns what it returns (or throws what it throws). Blocks the
/// caller. When another thread is inside run(), that one does the work; otherwise this thread serves the loop until
/// `task` ends (and other coroutines on it stand still afterwards). REQUIRES: the caller is no coroutine of the
/// same runtime (asserted).
void run_on(ProductionRuntime& runtime, asio::awaitable<void> task);

template <class T>
asio::awaitable<void> keep_result(asio::awaitable<T> task, std::optional<T>& result) {
  result.emplace(co_await std::move(task));
}

/// Runs a task that returns something. It is built on the function above, so that the start of a coroutine is compiled
/// once and not for every type.
template <class T>
  requires(!std::is_void_v<T>)
T run_on(ProductionRuntime& runtime, asio::awaitable<T> task) {
  std::optional<T> result;
  run_on(runtime, keep_result(std::move(task), result));
  return std::move(*result);
}

/// A thread that serves a runtime's event loop for as long as this object lives.
class LoopThread {
 public:
  /// Returns once the loop runs, so that run_on uses it from then on.
  explicit LoopThread(ProductionRuntime& runtime)
      : runtime_(runtime), thread_([&runtime] { runtime.run(); }) {
    runtime_.wait_until_running();
  }
  ~LoopThread() {
    runtime_.stop();
    thread_.join();
  }

 private:
  ProductionRuntime& runtime_;
  std::thread thread_;
};

}  // namespace kintsugi::runtime
