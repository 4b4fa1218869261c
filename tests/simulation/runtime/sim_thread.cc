#include "tests/simulation/runtime/sim_thread.h"

#include <utility>

#include <boost/asio/execution.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>

namespace kintsugi::simulation {

/// The simulation's executor with the thread's say about when a function runs. It names the thread only when a function runs: what is
/// dropped with the simulation may come after the thread.
template <class Inner>
class SimThread::Executor {
 public:
  Executor(Inner inner, SimThread* thread) noexcept : inner_(std::move(inner)), thread_(thread) {}

  template <class Property>
    requires asio::can_query<const Inner&, Property>::value
  decltype(auto) query(const Property& property) const {
    return asio::query(inner_, property);
  }
  template <class Property>
    requires asio::can_require<const Inner&, Property>::value
  auto require(const Property& property) const {
    return made(asio::require(inner_, property));
  }
  template <class Property>
    requires asio::can_prefer<const Inner&, Property>::value
  auto prefer(const Property& property) const {
    return made(asio::prefer(inner_, property));
  }

  template <class Function>
  void execute(Function&& function) const {
    inner_.execute([thread = thread_, function = std::forward<Function>(function)]() mutable {
      if (!thread->held_) return std::move(function)();
      thread->waiting_.push_back(std::make_unique<Kept<std::decay_t<Function>>>(std::move(function)));
    });
  }

  bool operator==(const Executor& other) const noexcept {
    return inner_ == other.inner_ && thread_ == other.thread_;
  }
  bool operator!=(const Executor& other) const noexcept { return !(*this == other); }

 private:
  template <class Function>
  struct Kept final : Work {
    explicit Kept(Function function) : function(std::move(function)) {}
    void run() override { std::move(function)(); }
    Function function;
  };
  template <class Other>
  Executor<std::decay_t<Other>> made(Other&& inner) const {
    return {std::forward<Other>(inner), thread_};
  }

  Inner inner_;
  SimThread* thread_;
};

SimThread::SimThread(asio::any_io_executor executor, NodeClock& clock)
    : outside_(executor), clock_(*this, clock), executor_(Executor<asio::any_io_executor>(executor, this)) {}

void SimThread::hold() {
  if (std::exchange(held_, true)) return;
  held_since_ = clock_.now();
}

void SimThread::let_go() {
  if (!std::exchange(held_, false)) return;
  asio::post(outside_, [this] { run_waiting(); });
}

void SimThread::run_waiting() {
  while (!held_ && !waiting_.empty()) {
    const std::unique_ptr<Work> work = std::move(waiting_.front());
    waiting_.pop_front();
    work->run();
  }
  clock_.run_due();
}

runtime::TimerId SimThread::ThreadClock::call_at(TimePoint due, std::function<void()> callback) {
  return clock_.call_at(due, [this, callback = std::move(callback)]() mutable {
    if (!thread_.held_) return callback();
    due_.push_back({clock_.firing(), std::move(callback)});
  });
}

bool SimThread::ThreadClock::cancel(runtime::TimerId timer) {
  if (clock_.cancel(timer)) return true;
  return std::erase_if(due_, [timer](const Due& due) { return due.timer == timer; }) > 0;
}

void SimThread::ThreadClock::run_due() {
  while (!thread_.held_ && !due_.empty()) {
    const std::function<void()> callback = std::move(due_.front().callback);
    due_.pop_front();
    callback();
  }
}

}  // namespace kintsugi::simulation
