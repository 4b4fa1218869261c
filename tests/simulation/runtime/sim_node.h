/// One simulated machine: the Runtime of a daemon, and the ways in which the machine can fail.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/runtime/runtime.h"
#include "tests/simulation/runtime/sim_disk.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::simulation {

/// The time of the simulation with a wall clock of its own.
class NodeClock final : public runtime::Clock {
 public:
  explicit NodeClock(SimClock& clock) : clock_(clock) {}

  TimePoint now() const override { return clock_.now(); }
  WallTime wall_now() const override {
    const Duration passed = clock_.now() - drifts_since_;
    return clock_.wall_now() + offset_ + Duration(passed.count() / 1'000'000 * drift_ppm_);
  }
  runtime::TimerId call_at(TimePoint due, std::function<void()> callback) override {
    return clock_.call_at(due, std::move(callback));
  }
  bool cancel(runtime::TimerId timer) override { return clock_.cancel(timer); }
  void set_offset(Duration offset) {
    offset_ = offset;
    drifts_since_ = clock_.now();
  }
  /// How much faster the wall clock runs than time does, from now on, in millionths.
  void set_drift(int64_t ppm) {
    offset_ = wall_now() - clock_.wall_now();
    drifts_since_ = clock_.now();
    drift_ppm_ = ppm;
  }

 private:
  SimClock& clock_;
  Duration offset_{};
  TimePoint drifts_since_;
  int64_t drift_ppm_ = 0;
};

/// Runs programs from construction (or restart) to crash. A crashed program's coroutines go on to run and its
/// timers fire, so that its owner can co_await its stop() and destroy it; but its network and disk are dead,
/// and it can do nothing that another machine or a later life of this one would see. Outlives what was built
/// on its runtimes.
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
    return {simulation_.executor(), clock_, *life.network, *life.disk, life.random};
  }

  /// Sets how much this machine's wall clock is ahead of the simulation's: skew, or a jump. Deadlines do not move.
  void set_wall_offset(Duration offset) { clock_.set_offset(offset); }
  /// Sets how much faster than time its wall clock runs from now on, in millionths.
  void set_wall_drift(int64_t ppm) { clock_.set_drift(ppm); }

  /// Ends the programs. With power_loss others hear nothing and unsynced changes are at risk. Otherwise it is as kill
  /// -9: the kernel closes the connections and keeps all that was written.
  void crash(bool power_loss = true) {
    if (!running_) return;
    running_ = false;
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
    runtime::Network* network;
    runtime::Disk* disk;
    SimRandom random;
  };
  void begin_life(runtime::Network& network) {
    const std::string purpose = name_ + "#" + std::to_string(lives_.size());
    lives_.push_back(
        std::make_unique<Life>(Life{&network, &disk_.view(), SimRandom(simulation_.seed_for(purpose))}));
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
