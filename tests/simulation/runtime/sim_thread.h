/// A thread of a simulated process, which can be held up: by code that does not return, or with its process by SIGSTOP.
#pragma once

#include <deque>
#include <memory>

#include <boost/asio/any_io_executor.hpp>

#include "common/runtime/resumption.h"
#include "tests/simulation/runtime/node_clock.h"

namespace kintsugi::simulation {

/// While it is held, nothing on it runs: what is woken and what is due waits, in order, and runs once it is let go. Bytes go on to
/// arrive, and disks to work. Outlives what runs on it.
class SimThread {
 public:
  SimThread(asio::any_io_executor executor, NodeClock& clock);
  SimThread(const SimThread&) = delete;

  const asio::any_io_executor& executor() const { return executor_; }
  runtime::Clock& clock() { return clock_; }

  void hold();  ///< once more has no effect
  void let_go();
  bool held() const { return held_; }
  /// For how long; zero when it is not held.
  Duration held_for() const { return held_ ? clock_.now() - held_since_ : Duration{}; }

 private:
  template <class Inner>
  class Executor;

  struct Work {
    virtual ~Work() = default;
    virtual void run() = 0;
  };

  /// The clock of what runs on the thread.
  class ThreadClock final : public runtime::Clock {
   public:
    ThreadClock(SimThread& thread, NodeClock& clock) : thread_(thread), clock_(clock) {}
    TimePoint now() const override { return clock_.now(); }
    WallTime wall_now() const override { return clock_.wall_now(); }
    runtime::TimerId call_at(TimePoint due, std::function<void()> callback) override;
    bool cancel(runtime::TimerId timer) override;
    void run_due();

   private:
    struct Due {
      runtime::TimerId timer;
      std::function<void()> callback;
    };
    SimThread& thread_;
    NodeClock& clock_;
    std::deque<Due> due_;  ///< while the thread is held
  };

  void run_waiting();

  asio::any_io_executor outside_;
  ThreadClock clock_;
  bool held_ = false;
  TimePoint held_since_;
  std::deque<std::unique_ptr<Work>> waiting_;
  asio::any_io_executor executor_;
};

}  // namespace kintsugi::simulation
