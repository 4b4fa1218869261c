/// The time of a clock, read from the processor's counter where that counts evenly: a third of the price. The counter
/// is compared with the clock once a second, and time never goes back.
#pragma once

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "common/runtime/clock.h"

namespace kintsugi::sight {

class TickClock {
 public:
  /// `ticks`: read the counter instead of the clock, where there is one. REQUIRES: the clock is the steady one then.
  TickClock(const runtime::Clock& clock, bool ticks);

  /// For one thread only.
  [[gnu::always_inline]] int64_t now_ns() {
    if (!ticks_) return clock_ns();
    const uint64_t ticks = read_counter();
    const uint64_t since = ticks - anchor_ticks_;
    const int64_t now =
        since < trusted_ticks_
            ? anchor_ns_ + static_cast<int64_t>(static_cast<unsigned __int128>(since) * scale_ >> 32)
            : calibrate(ticks);
    return latest_ns_ = std::max(latest_ns_, now);
  }
  /// For any thread.
  int64_t clock_ns() const { return clock_.now().time_since_epoch().count(); }

 private:
  static uint64_t read_counter() {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return 0;
#endif
  }
  int64_t calibrate(uint64_t ticks);

  const runtime::Clock& clock_;
  const bool ticks_;
  // ns = anchor_ns_ + (ticks - anchor_ticks_) * scale_ / 2^32.
  uint64_t anchor_ticks_ = 0, scale_ = 0, trusted_ticks_ = 0;
  int64_t anchor_ns_ = 0, latest_ns_ = 0;
};

}  // namespace kintsugi::sight
