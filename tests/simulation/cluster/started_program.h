/// A daemon whose clean stop has to wait for its start: kill -9 may come at any time, but the objects in this
/// process must be taken apart in order.
#pragma once

#include <optional>

#include "common/runtime/event.h"
#include "tests/simulation/cluster/program.h"

namespace kintsugi::simulation {

class StartedProgram : public Program {
 public:
  explicit StartedProgram(const runtime::Runtime& runtime) : runtime_(runtime), start_ended_(runtime) {}

  asio::awaitable<Status> start() final {
    const Status status = co_await start_daemon();
    started_ = status.ok();
    if (*started_ && reports_) reports_->start();
    start_ended_.notify_all();
    co_return status;
  }

  /// Its start ended well.
  bool started() const { return started_.value_or(false); }

  asio::awaitable<void> stop() final {
    while (!started_)
      co_await start_ended_.wait();
    if (reports_) co_await reports_->stop();
    co_await stop_daemon(*started_);
  }

 protected:
  const runtime::Runtime& runtime() const { return runtime_; }
  virtual asio::awaitable<Status> start_daemon() = 0;
  virtual asio::awaitable<void> stop_daemon(bool was_started) = 0;

 private:
  const runtime::Runtime runtime_;
  runtime::Event start_ended_;
  std::optional<bool> started_;
};

}  // namespace kintsugi::simulation
