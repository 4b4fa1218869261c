/// From ordinary code into a coroutine and back: for main functions, blocking client calls and tests.
#pragma once

#include <exception>
#include <future>
#include <thread>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include "common/base/assert.h"
#include "common/runtime/production/production_runtime.h"

namespace kintsugi::runtime {

/// Runs `task` on the runtime's event loop and returns what it returns (or throws what it throws). Blocks the
/// caller. When another thread is inside run(), that one does the work; otherwise this thread serves the loop
/// until `task` ends (and other coroutines on it stand still afterwards). Never call it from a coroutine of
/// the same runtime.
template <class T>
T run_on(ProductionRuntime& runtime, asio::awaitable<T> task) {
  KINTSUGI_ASSERT(!runtime.io().get_executor().running_in_this_thread());
  std::promise<T> promise;
  std::future<T> future = promise.get_future();
  bool drive = !runtime.is_running();
  // Once the promise is kept, the caller may have left: nothing of its frame may be touched after that.
  auto finish = [&runtime, &promise, drive](std::exception_ptr error, auto... value) {
    if (error) {
      promise.set_exception(error);
    } else {
      promise.set_value(std::move(value)...);
    }
    if (drive) runtime.stop();
  };
  // Posted, so that the coroutine is created, run and destroyed on the loop's thread alone.
  asio::post(runtime.io(), [&runtime, task = std::move(task), finish]() mutable {
    asio::co_spawn(runtime.io(), std::move(task), finish);
  });
  if (drive) runtime.run();
  return future.get();
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
