/// Reads windows ahead, as many as memory allows, and hands them over in order.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "client/lib/read/window_reader.h"
#include "client/lib/resources.h"
#include "common/runtime/context.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// A window that is read, or was.
struct WindowInFlight {
  uint64_t offset = 0;  ///< where its bytes belong, as plan_next() said
  StripeWindow window;
  std::unique_ptr<WindowReader> reader;
  std::optional<Status> result;  ///< once it was read
};

/// Plans the windows of a pipeline and takes what was read.
class WindowUser {
 public:
  struct Planned {
    uint64_t offset = 0;  ///< for the user
    StripeWindow window;
  };

  virtual ~WindowUser() = default;
  /// Puts the next window into `next`, which is left empty after the last one.
  virtual asio::awaitable<Status> plan_next(std::optional<Planned>& next) = 0;
  /// Takes the windows in the order of plan_next(), also one that could not be read. Its bytes are there until
  /// the return.
  virtual asio::awaitable<Status> take(WindowInFlight& window) = 0;
};

/// Use once. Memory: each window's lease. Only a pipeline that holds nothing waits for memory, so that pipelines which
/// hold some and want more cannot lock each other out.
class WindowPipeline {
 public:
  WindowPipeline(Resources& resources, size_t max_in_flight, WindowReader::Trees trees)
      : resources_(resources),
        max_in_flight_(max_in_flight),
        trees_(trees),
        changed_(resources.runtime),
        tasks_(resources.runtime) {}

  /// Ok: all windows were planned, read and taken. Otherwise the first error of the user, after which nothing of the
  /// pipeline runs any more.
  asio::awaitable<Status> run(Context context, WindowUser& user);
  /// For the user, while it takes the window: reads it once more from `located`, where its chunks are now, in the same
  /// memory. REQUIRES: the same range of a stripe with the same policy.
  asio::awaitable<void> read_again(WindowInFlight& window, StripeWindow located);

 private:
  asio::awaitable<Status> read_all(WindowUser& user);
  /// Plans and starts windows as long as there is room for them.
  asio::awaitable<Status> start_ahead(WindowUser& user);
  /// Begins to read the planned window. It stays planned when memory has to come back first.
  asio::awaitable<Status> start_planned();
  asio::awaitable<void> read(WindowInFlight* window);

  Resources& resources_;
  const size_t max_in_flight_;
  const WindowReader::Trees trees_;
  Context context_;
  std::optional<WindowUser::Planned> planned_;  ///< the next one
  std::deque<std::unique_ptr<WindowInFlight>> in_flight_;
  runtime::Event changed_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::client
