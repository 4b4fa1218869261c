#include "common/runtime/task_group.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include "common/base/assert.h"
#include "common/log/log.h"
#include "common/runtime/event.h"

namespace kintsugi::runtime {

struct TaskGroup::StopCallback::Entry {
  std::function<void()> callback;
  std::list<std::shared_ptr<Entry>>* list = nullptr;  // null once the callback ran or the group is gone
  std::list<std::shared_ptr<Entry>>::iterator position;
};

struct TaskGroup::State {
  State(asio::any_io_executor executor, Clock& clock)
      : executor(executor), clock(clock), stop(executor, clock), idle(executor, clock) {}

  asio::any_io_executor executor;
  Clock& clock;
  size_t running = 0;
  bool stopping = false;
  Event stop;  // wakes sleepers
  Event idle;  // wakes the joiner
  std::list<std::shared_ptr<StopCallback::Entry>> callbacks;
};

namespace {

[[noreturn]] void abort_on_exception(const std::exception_ptr& error) {
  std::string what = "unknown exception";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    what = exception.what();
  } catch (...) {
  }
  log::error("an exception left a spawned task: {}", what);
  KINTSUGI_ASSERT(!"an exception left a spawned task");
  std::abort();
}

}  // namespace

TaskGroup::TaskGroup(asio::any_io_executor executor, Clock& clock)
    : state_(std::make_shared<State>(std::move(executor), clock)) {}

TaskGroup::~TaskGroup() {
  KINTSUGI_ASSERT(state_->running == 0);
  for (auto& entry : state_->callbacks)
    entry->list = nullptr;
}

void TaskGroup::spawn(asio::awaitable<void> task) {
  ++state_->running;
  // co_spawn alone would start the task inside this call when we are already on the executor.
  asio::post(state_->executor, [state = state_, task = std::move(task)]() mutable {
    asio::any_io_executor executor = state->executor;
    // The completion holds the state, so the group may be destroyed as soon as the joiner has seen that nothing runs.
    asio::co_spawn(executor, std::move(task), [state = std::move(state)](std::exception_ptr error) {
      if (error) abort_on_exception(error);
      if (--state->running == 0) state->idle.notify_all();
    });
  });
}

bool TaskGroup::stopping() const {
  return state_->stopping;
}

void TaskGroup::request_stop() {
  if (state_->stopping) return;
  state_->stopping = true;
  state_->stop.notify_all();
  auto state = state_;
  // A callback may drop the handles of others, so the list is looked at anew each time.
  while (!state->callbacks.empty()) {
    std::shared_ptr<StopCallback::Entry> entry = state->callbacks.front();
    state->callbacks.pop_front();
    entry->list = nullptr;
    std::function<void()> callback = std::move(entry->callback);
    callback();
  }
}

asio::awaitable<void> TaskGroup::join() {
  auto state = state_;
  while (state->running > 0)
    co_await state->idle.wait();
}

asio::awaitable<void> TaskGroup::stop() {
  request_stop();
  co_await join();
}

size_t TaskGroup::running() const {
  return state_->running;
}

asio::awaitable<bool> TaskGroup::sleep_until(TimePoint due) {
  auto state = state_;
  if (state->stopping) co_return false;
  bool stopped = co_await state->stop.wait_until(due);
  co_return !stopped;
}

asio::awaitable<bool> TaskGroup::sleep_for(Duration duration) {
  TimePoint now = state_->clock.now();
  return sleep_until(duration > TimePoint::max() - now ? TimePoint::max() : now + duration);
}

TaskGroup::StopCallback& TaskGroup::StopCallback::operator=(StopCallback&& other) noexcept {
  std::swap(entry_, other.entry_);
  return *this;
}

TaskGroup::StopCallback::~StopCallback() {
  if (entry_ && entry_->list) entry_->list->erase(entry_->position);
}

TaskGroup::StopCallback TaskGroup::on_stop(std::function<void()> callback) {
  StopCallback handle;
  if (state_->stopping) {
    callback();
    return handle;
  }
  handle.entry_ = std::make_shared<StopCallback::Entry>();
  handle.entry_->callback = std::move(callback);
  handle.entry_->list = &state_->callbacks;
  handle.entry_->position = state_->callbacks.insert(state_->callbacks.end(), handle.entry_);
  return handle;
}

}  // namespace kintsugi::runtime
