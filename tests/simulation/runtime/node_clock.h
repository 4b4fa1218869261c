/// The time of the simulation with a wall clock of its own.
#pragma once

#include "tests/simulation/runtime/sim_clock.h"

namespace kintsugi::simulation {

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
  /// The timer whose callback runs now.
  runtime::TimerId firing() const { return clock_.firing(); }

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

}  // namespace kintsugi::simulation
