/// A clock that moves only when told to.
#pragma once

#include "common/runtime/clock.h"

namespace kintsugi::sight {

class HandClock : public runtime::Clock {
 public:
  TimePoint now() const override { return now_; }
  WallTime wall_now() const override { return WallTime(now_.time_since_epoch()); }
  runtime::TimerId call_at(TimePoint, std::function<void()>) override { return runtime::TimerId::kNone; }
  bool cancel(runtime::TimerId) override { return false; }
  void advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{1h};
};

}  // namespace kintsugi::sight
