/// The real world behind the runtime seam: one event loop with the steady clock, TCP, io_uring and kernel randomness.
#pragma once

#include <atomic>
#include <functional>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "common/runtime/fault_points.h"
#include "common/runtime/production/asio_network.h"
#include "common/runtime/production/kernel_random.h"
#include "common/runtime/production/loop_turns.h"
#include "common/runtime/production/steady_clock.h"
#include "common/runtime/production/uring_disk.h"
#include "common/runtime/runtime.h"
#include "common/runtime/tls/tls_network.h"

namespace kintsugi::runtime {

/// One per daemon or client; a process may hold several, each with its own thread. REQUIRES: every TaskGroup on it was
/// joined before it is destroyed (run_on() runs a coroutine that does so).
class ProductionRuntime {
 public:
  /// `busy_poll`: while `expects_soon` says so, and events do follow one another within about that time, the loop
  /// looks for the next one for so long before its thread sleeps. To wake a processor that has halted takes longer
  /// than many a request, most of all in virtual machines. 0: it sleeps at once.
  explicit ProductionRuntime(Duration busy_poll = {}, TlsPolicy tls = {});
  ProductionRuntime(const ProductionRuntime&) = delete;
  ProductionRuntime& operator=(const ProductionRuntime&) = delete;

  Runtime& runtime() { return runtime_; }
  asio::io_context& io() { return io_; }
  /// What the connections of runtime() lose; may be read from any thread.
  TcpLosses& losses() { return *network_.losses(); }
  /// How runtime() speaks to other hosts.
  const TlsPolicy& tls() const { return tls_.policy(); }
  /// The disk of runtime(), which may be told of disks that should have a worker each.
  UringDisk& disk() { return disk_; }

  /// An event is likely to come at once that nobody waits for yet, as the next request of an application. Asked on the
  /// loop's thread.
  std::function<bool()> expects_soon = [] { return false; };

  /// From its next run() on the loop measures its turns. To be read, and told of long ones, on the loop's thread.
  LoopTurns& measure_turns() {
    measures_turns_ = true;
    return turns_;
  }

  /// Serves the event loop on this thread until stop(). May be called again afterwards.
  void run();
  /// May be called from any thread. run() returns after the handler that is running; pending work stays pending.
  void stop();
  /// True while some thread is inside run().
  bool is_running() const { return running_; }
  /// Blocks until a thread that was started for it has entered run().
  void wait_until_running() const { running_.wait(false); }

 private:
  /// Runs handlers until stop(), looking for the next one for `busy_poll_` before it sleeps, as long as that is of any
  /// use.
  void run_awake();

  const Duration busy_poll_;
  bool measures_turns_ = false;
  LoopTurns turns_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> keep_running_;
  SteadyClock clock_;
  AsioNetwork network_;
  TlsNetwork tls_;
  UringDisk disk_;
  KernelRandom random_;
  FaultPoints faults_;
  Runtime runtime_;
  std::atomic<bool> running_ = false;
};

}  // namespace kintsugi::runtime
