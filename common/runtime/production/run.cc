#include "common/runtime/production/run.h"

#include <exception>
#include <future>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include "common/base/assert.h"

namespace kintsugi::runtime {

void run_on(ProductionRuntime& runtime, asio::awaitable<void> task) {
  KINTSUGI_ASSERT(!runtime.io().get_executor().running_in_this_thread());
  std::promise<void> promise;
  std::future<void> future = promise.get_future();
  bool drive = !runtime.is_running();
  // Once the promise is kept, the caller may have left: nothing of its frame may be touched after that.
  auto finish = [&runtime, &promise, drive](std::exception_ptr error) {
    if (error) {
      promise.set_exception(error);
    } else {
      promise.set_value();
    }
    if (drive) runtime.stop();
  };
  // Posted, so that the coroutine is started and destroyed on the loop's thread alone.
  asio::post(runtime.io(), [&runtime, task = std::move(task), finish]() mutable {
    asio::co_spawn(runtime.io(), std::move(task), finish);
  });
  if (drive) runtime.run();
  future.get();
}

}  // namespace kintsugi::runtime
