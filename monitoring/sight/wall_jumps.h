/// Notices when the wall clock of this machine jumps, by the monotonic clock beside it.
#pragma once

#include "common/proto/sight.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::sight {

/// Not thread-safe.
class WallJumps {
 public:
  /// A clock that is put right slowly goes by less between two looks, and so do two readings of a busy process.
  static constexpr Duration kLeast = std::chrono::seconds(1);

  /// To be called a few times a second.
  void look(const runtime::Clock& clock) {
    const TimePoint before = clock.now();
    const WallTime wall = clock.wall_now();
    const TimePoint now = clock.now();
    // Between the two readings it had no processor: nobody knows when the wall clock showed that.
    if (now - before > kLeast / 4) return;
    const Duration moved = (wall - wall_) - (now - at_);
    const bool jumped = known_ && std::chrono::abs(moved) >= kLeast;
    if (jumped) {
      told_.set_jumps(told_.jumps() + 1);
      told_.set_jumped_ns(told_.jumped_ns() + moved.count());
    }
    known_ = true;
    wall_ = wall;
    at_ = now;
  }
  const proto::SightClock& told() const { return told_; }

 private:
  bool known_ = false;
  WallTime wall_{};
  TimePoint at_{};
  proto::SightClock told_;
};

}  // namespace kintsugi::sight
