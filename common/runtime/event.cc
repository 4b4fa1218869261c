#include "common/runtime/event.h"

#include <boost/asio/post.hpp>

#include "common/runtime/resumption.h"

namespace kintsugi::runtime {

struct Event::State {
  struct Waiter {
    Resumption<bool> coroutine;
    TimerId timer = TimerId::kNone;
  };
  using Position = std::list<Waiter>::iterator;

  State(asio::any_io_executor executor, Clock& clock) : executor(std::move(executor)), clock(clock) {}

  void add(Resumption<bool> coroutine, TimePoint deadline) {
    Position position = waiters.insert(waiters.end(), Waiter{std::move(coroutine)});
    if (deadline == TimePoint::max()) return;
    // The timer dies with the waiter and the waiter before the state, so neither pointer dangles.
    position->timer = clock.call_at(deadline, [this, position] {
      position->timer = TimerId::kNone;
      wake(position, false);
    });
  }

  void wake(Position position, bool notified) {
    if (position->timer != TimerId::kNone) clock.cancel(position->timer);
    // Posted: whoever notifies continues first, and may destroy the event, since the waiter is out of it by then.
    asio::post(executor, [coroutine = std::move(position->coroutine), notified]() mutable {
      coroutine.resume(notified);
    });
    waiters.erase(position);
  }

  asio::any_io_executor executor;
  Clock& clock;
  std::list<Waiter> waiters;  // ordered by arrival
};

Event::Event(asio::any_io_executor executor, Clock& clock)
    : state_(std::make_unique<State>(std::move(executor), clock)) {}

Event::~Event() {
  KINTSUGI_ASSERT(state_->waiters.empty());
}

asio::awaitable<bool> Event::wait_until(TimePoint deadline) {
  return suspend<bool>([state = state_.get(), deadline](Resumption<bool> coroutine) {
    state->add(std::move(coroutine), deadline);
  });
}

asio::awaitable<void> Event::wait() {
  co_await wait_until(TimePoint::max());
}

void Event::notify_one() {
  if (!state_->waiters.empty()) state_->wake(state_->waiters.begin(), true);
}

void Event::notify_all() {
  while (!state_->waiters.empty())
    state_->wake(state_->waiters.begin(), true);
}

size_t Event::waiting() const {
  return state_->waiters.size();
}

// Slots are handed over, never raced for: release() leaves `free_` alone while somebody waits, and the waiter
// it wakes owns the slot. So nobody overtakes the queue, and free_ > 0 implies that it is empty.
asio::awaitable<Status> Semaphore::acquire(TimePoint deadline) {
  if (try_acquire()) co_return Status{};
  bool granted = co_await freed_.wait_until(deadline);
  if (!granted) co_return Status{Code::kDeadlineExceeded, "no slot came free in time"};
  co_return Status{};
}

bool Semaphore::try_acquire() {
  if (free_ == 0) return false;
  --free_;
  return true;
}

void Semaphore::release() {
  if (freed_.waiting() > 0) {
    freed_.notify_one();
  } else {
    ++free_;
  }
}

}  // namespace kintsugi::runtime
