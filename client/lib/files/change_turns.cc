#include "client/lib/files/change_turns.h"

#include "monitoring/sight/recorder.h"

namespace kintsugi::client {

asio::awaitable<Status> ChangeTurns::take(Context context, TimePoint give_up) {
  if (turn_.try_acquire()) co_return Status{};
  const runtime::Wait wait(context, runtime::WaitKind::kSibling, 0, span_);
  if ((co_await turn_.acquire(give_up)).ok()) co_return Status{};
  co_return Status{Code::kUnavailable, "earlier operations on the file did not end in time"};
}

asio::awaitable<void> ChangeTurns::take_exclusively(Context context) {
  {
    const runtime::Wait wait(context, runtime::WaitKind::kSibling, 0, span_);
    (void)co_await turn_.acquire(TimePoint::max());
  }
  exclusive_ = true;
  span_ = context.trace.span_id;
}

void ChangeTurns::release_exclusively() {
  exclusive_ = false;
  turn_.release();
  ended_.notify_all();
}

asio::awaitable<void> ChangeTurns::wait_while_exclusive(Context context) {
  while (exclusive_) {
    const runtime::Wait wait(context, runtime::WaitKind::kSibling, 0, span_);
    co_await ended_.wait();
  }
}

}  // namespace kintsugi::client
