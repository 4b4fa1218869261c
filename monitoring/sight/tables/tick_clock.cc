#include "monitoring/sight/tables/tick_clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kintsugi::sight {

namespace {

/// Nanoseconds of clock and counter side by side that make a stretch.
constexpr int64_t kStretch = 20'000'000;
/// Nanoseconds after which the counter is compared with the clock again.
constexpr int64_t kTrusted = 1'000'000'000;

bool has_invariant_counter() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
  return false;
#endif
}

}  // namespace

TickClock::TickClock(const runtime::Clock& clock, bool ticks)
    : clock_(clock), ticks_(ticks && has_invariant_counter()) {}

[[gnu::noinline]] int64_t TickClock::calibrate(uint64_t ticks) {
  const int64_t now = clock_ns();
  const int64_t elapsed = now - anchor_ns_;
  if (anchor_ticks_ == 0 || ticks <= anchor_ticks_) {
    anchor_ticks_ = ticks;
    anchor_ns_ = now;
    return now;
  }
  if (elapsed < kStretch) return now;
  const auto scale =
      static_cast<uint64_t>((static_cast<unsigned __int128>(elapsed) << 32) / (ticks - anchor_ticks_));
  // A machine that slept counts otherwise than its clock, and a thread that lost its processor between the two looks
  // saw them apart: a rate is believed once two stretches in a row have had it.
  const bool is_confirmed = scale > scale_ - scale_ / 256 && scale < scale_ + scale_ / 256;
  scale_ = scale;
  anchor_ticks_ = ticks;
  anchor_ns_ = now;
  trusted_ticks_ =
      is_confirmed ? static_cast<uint64_t>((static_cast<unsigned __int128>(kTrusted) << 32) / scale) : 0;
  return now;
}

}  // namespace kintsugi::sight
