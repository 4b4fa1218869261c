/// The order of the changes of one file, as under the lock of an inode in a local file system.
#pragma once

#include <cstdint>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/runtime/context.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

/// Each write, append and operation on the whole file takes the turn, and keeps it until it has ended. So an append is
/// whole, also where it waits for memory. An operation on the whole file takes it exclusively: reads wait for that one
/// moreover.
class ChangeTurns {
 public:
  explicit ChangeTurns(const runtime::Runtime& runtime) : turn_(runtime, 1), ended_(runtime) {}

  /// Waits until every change that was begun before has ended. Ok: release() follows. kUnavailable: not before
  /// `give_up`.
  asio::awaitable<Status> take(Context context, TimePoint give_up);
  void release() { turn_.release(); }

  /// Waits as long as it takes; release_exclusively() follows.
  asio::awaitable<void> take_exclusively(Context context);
  void release_exclusively();
  bool is_exclusive() const { return exclusive_; }
  asio::awaitable<void> wait_while_exclusive(Context context);

 private:
  runtime::Semaphore turn_;
  bool exclusive_ = false;
  uint64_t span_ = 0;  ///< the region of the exclusive operation, as the target of waits
  runtime::Event ended_;
};

}  // namespace kintsugi::client
