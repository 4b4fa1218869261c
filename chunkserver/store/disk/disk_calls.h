/// Calls to disks that their callers stop waiting for when the disk hangs.
#pragma once

#include <memory>
#include <optional>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/data_disk.h"
#include "common/runtime/buffer_pool.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

/// A call to a disk that hangs ends when the disk answers, which may be never; whoever asked should ask another server long
/// before. References outlive it; the tasks run on for as long as a disk hangs.
class DiskCalls {
 public:
  DiskCalls(const runtime::Runtime& runtime, runtime::TaskGroup& tasks) : runtime_(runtime), tasks_(tasks) {}

  /// Returns what the call returns, or, as soon as the disk is judged hung, the error of DataDisk::check_answers(). The call
  /// then goes on alone. REQUIRES: it owns or shares everything that it uses, but the store.
  template <class T>
  asio::awaitable<Result<T>> wait_for(const DataDisk& disk, asio::awaitable<Result<T>> call) {
    auto waited = std::make_shared<Waited<T>>(runtime_);
    tasks_.spawn(carry_out(waited, std::move(call)));
    while (!waited->result && disk.answers())
      (void)co_await waited->done.wait_until(disk.health().hangs_at_soonest());
    if (waited->result) co_return std::move(*waited->result);
    co_return disk.check_answers();
  }

 private:
  template <class T>
  struct Waited {
    explicit Waited(const runtime::Runtime& runtime) : done(runtime) {}
    std::optional<Result<T>> result;
    runtime::Event done;
  };

  template <class T>
  static asio::awaitable<void> carry_out(std::shared_ptr<Waited<T>> waited, asio::awaitable<Result<T>> call) {
    waited->result = co_await std::move(call);
    waited->done.notify_all();
  }

  const runtime::Runtime& runtime_;
  runtime::TaskGroup& tasks_;
};

/// A buffer for a transfer of the disk, out of its share of them. kDeadlineExceeded; kUnavailable as soon as the disk hangs:
/// those who wait for it have the buffers.
inline asio::awaitable<Result<runtime::Buffer>> acquire_buffer(runtime::BufferPool& buffers, DataDisk& disk,
                                                               TimePoint limit) {
  const runtime::Clock& clock = disk.health().clock();
  while (true) {
    if (Status answers = disk.check_answers(); !answers.ok()) co_return answers;
    const TimePoint look_again = std::min(limit, disk.health().hangs_at_soonest());
    auto buffer = co_await buffers.acquire(look_again, disk.share_of_buffers());
    if (buffer || clock.now() >= limit) co_return buffer;
  }
}

}  // namespace kintsugi::chunkserver
