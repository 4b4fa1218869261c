/// Calls to disks that their callers stop waiting for when the disk hangs.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <source_location>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>

#include "chunkserver/store/disk/abandoned.h"
#include "chunkserver/store/disk/data_disk.h"
#include "common/rpc/peers.h"
#include "common/runtime/buffer_pool.h"
#include "common/runtime/event.h"
#include "common/runtime/fault_points.h"
#include "common/runtime/resumption.h"
#include "common/runtime/span.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

/// A call to a disk that hangs ends when the disk answers, which may be never; whoever asked should ask another server
/// long before. A call costs no turn of the loop of its own: every read of a chunk is one. References outlive it.
class DiskCalls {
 public:
  explicit DiskCalls(const runtime::Runtime& runtime) : runtime_(runtime), ended_(runtime) {}

  /// Returns what the call returns (a Status or Result), or, within a second after the disk is judged hung, the error
  /// of DataDisk::check_answers(). The call then continues alone, and `abandoned`, if there is one, says so. REQUIRES:
  /// watch() runs, and the call owns or shares everything that it uses, but the store.
  template <class Outcome>
  asio::awaitable<Outcome> wait_for(const DataDisk& disk, asio::awaitable<Outcome> call,
                                    std::shared_ptr<Abandoned> abandoned = nullptr) {
    auto waited = std::make_shared<Waited<Outcome>>();
    waited->disk = &disk;
    waited->abandoned = std::move(abandoned);
    co_await runtime::suspend<bool>([&](runtime::Resumption<bool> caller) {
      waited->caller = std::move(caller);
      waited->place = waiting_.insert(waiting_.end(), waited);
      waited->is_starting = true;
      asio::co_spawn(runtime_.executor, carry_out(waited, std::move(call)), abort_on_exception);
      waited->is_starting = false;
    });
    if (waited->result) co_return std::move(*waited->result);
    co_return std::move(waited->given_up);
  }

  /// Tells callers of disks that hang, until the tasks stop and every call has ended.
  asio::awaitable<void> watch(runtime::TaskGroup& tasks);

 private:
  struct Call {
    const DataDisk* disk = nullptr;
    std::shared_ptr<Abandoned> abandoned;
    Status given_up;                   ///< why the caller was told before the call ended
    runtime::Resumption<bool> caller;  ///< none: it was told already
    bool is_starting = false;          ///< the caller is about to be suspended
    std::list<std::shared_ptr<Call>>::iterator place;
  };
  template <class Outcome>
  struct Waited : Call {
    std::optional<Outcome> result;
  };

  template <class Outcome>
  asio::awaitable<void> carry_out(std::shared_ptr<Waited<Outcome>> waited, asio::awaitable<Outcome> call) {
    auto result = co_await std::move(call);
    if (waited->caller) waited->result = std::move(result);
    waiting_.erase(waited->place);
    if (waiting_.empty()) ended_.notify_all();
    runtime::do_or_lose(runtime_.faults, {runtime::FaultPoint::kComplete, "disk call"},
                        [this, waited = std::move(waited)] { tell(*waited); });
  }
  void tell(Call& call);
  static void abort_on_exception(std::exception_ptr error);

  const runtime::Runtime& runtime_;
  std::list<std::shared_ptr<Call>> waiting_;  ///< calls that have not ended
  runtime::Event ended_;                      ///< the last of them has
};

/// A call waits no longer than this for a buffer, whatever its deadline.
inline constexpr Duration kBufferWaitLimit = std::chrono::seconds(30);

/// A buffer for a transfer of the disk, out of its share of them, of which one peer leaves some to others.
/// kDeadlineExceeded; kUnavailable as soon as the disk
/// hangs: those who wait for it have the buffers. `where`: the place that is said to wait.
inline asio::awaitable<Result<runtime::Buffer>> acquire_buffer(
    Context context, runtime::BufferPool& buffers, DataDisk& disk,
    std::source_location where = std::source_location::current()) {
  const runtime::Clock& clock = disk.health().clock();
  const TimePoint limit = context.with_deadline(clock.now() + kBufferWaitLimit).deadline;
  runtime::Wait wait(context, runtime::WaitKind::kResource, runtime::named_target(context, "buffers"), 0, 0,
                     where);
  while (true) {
    if (Status answers = disk.check_answers(); !answers.ok()) co_return wait.finish(answers);
    const TimePoint look_again = std::min(limit, disk.health().hangs_at_soonest());
    auto buffer = co_await buffers.acquire(look_again, disk.share_of_buffers(), rpc::peer_of(context));
    if (buffer) co_return buffer;
    if (clock.now() >= limit) co_return wait.finish(buffer.error());
  }
}

}  // namespace kintsugi::chunkserver
