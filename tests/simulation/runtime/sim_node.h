/// One simulated machine: the Runtime of a daemon, and the ways in which the machine can fail.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/runtime/fault_points.h"
#include "common/runtime/runtime.h"
#include "tests/simulation/runtime/node_clock.h"
#include "tests/simulation/runtime/sim_disk.h"
#include "tests/simulation/runtime/sim_thread.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::simulation {

/// Runs programs from construction (or restart) to crash. A crashed program's coroutines go on to run and its
/// timers fire, so that its owner can co_await its stop() and destroy it; but its network and disk are dead,
/// and it can do nothing that another machine or a later life of this one would see. Outlives what was built
/// on its runtimes.
///
/// A program has two threads: its own, and that of its observer, which goes on while the first is held up.
class SimNode {
 public:
  SimNode(Simulation& simulation, std::string name)
      : simulation_(simulation),
        name_(std::move(name)),
        clock_(simulation.clock()),
        disk_(simulation.clock(), simulation.events(), simulation.seed_for("disk of " + name_)) {
    begin_life(simulation_.network().host(name_));
  }

  const std::string& name() const { return name_; }
  SimDisk& disk() { return disk_; }
  bool running() const { return running_; }
  /// The runtime of the present life. Its references stay valid after a crash.
  runtime::Runtime runtime() {
    Life& life = *lives_.back();
    return {life.main.executor(), life.main.clock(), *life.network, *life.disk, life.random, &life.faults};
  }
  /// The same for the observer of the program: a thread of its own, in which nothing goes wrong on purpose.
  runtime::Runtime observer_runtime() {
    Life& life = *lives_.back();
    return {life.observer.executor(), life.observer.clock(), *life.network, *life.disk, life.observer_random};
  }

  /// Of the present life, and empty at its beginning. A loop that a fault makes holds the program's thread.
  runtime::FaultPoints& faults() { return lives_.back()->faults; }
  /// As SIGSTOP and SIGCONT do: nothing of the program runs, and what it has open stays so.
  void stop_process() {
    lives_.back()->main.hold();
    lives_.back()->observer.hold();
  }
  void continue_process() {
    lives_.back()->main.let_go();
    lives_.back()->observer.let_go();
  }
  /// For how long the program's thread has been held.
  Duration held_for() const { return lives_.back()->main.held_for(); }

  /// Sets how much this machine's wall clock is ahead of the simulation's: skew, or a jump. Deadlines do not move.
  void set_wall_offset(Duration offset) { clock_.set_offset(offset); }
  /// Sets how much faster than time its wall clock runs from now on, in millionths.
  void set_wall_drift(int64_t ppm) { clock_.set_drift(ppm); }

  /// Ends the programs. With power_loss others hear nothing and unsynced changes are at risk. Otherwise it is as kill
  /// -9: the kernel closes the connections and keeps all that was written.
  void crash(bool power_loss = true) {
    if (!running_) return;
    running_ = false;
    continue_process();
    faults().clear();
    simulation_.network().crash(name_, power_loss);
    disk_.crash(power_loss);
  }

  /// Begins a fresh life on the data that the disk kept. REQUIRES: crash() was called.
  void restart() {
    KINTSUGI_ASSERT(!running_);
    begin_life(simulation_.network().restart(name_));
  }

 private:
  struct Life {
    Life(SimNode& node, runtime::Network& to_network, const std::string& purpose)
        : network(&to_network),
          disk(&node.disk_.view()),
          random(node.simulation_.seed_for(purpose)),
          observer_random(node.simulation_.seed_for("observer of " + purpose)),
          main(node.simulation_.executor(), node.clock_),
          observer(node.simulation_.executor(), node.clock_),
          faults(main.executor(), main.clock(), [this](Duration lasts) { return keep_busy(lasts); }) {}

    /// Nothing else runs on the thread meanwhile; the caller goes on first.
    asio::awaitable<void> keep_busy(Duration lasts) {
      main.hold();
      (void)observer.clock().call_at(observer.clock().now() + lasts, [this] { main.let_go(); });
      co_await asio::post(main.executor(), asio::use_awaitable);
    }

    runtime::Network* network;
    runtime::Disk* disk;
    SimRandom random, observer_random;
    SimThread main, observer;
    runtime::FaultPoints faults;
  };
  void begin_life(runtime::Network& network) {
    const std::string purpose = name_ + "#" + std::to_string(lives_.size());
    lives_.push_back(std::make_unique<Life>(*this, network, purpose));
    running_ = true;
  }

  Simulation& simulation_;
  const std::string name_;
  NodeClock clock_;
  SimDisk disk_;
  std::vector<std::unique_ptr<Life>> lives_;
  bool running_ = false;
};

}  // namespace kintsugi::simulation
