/// Time, as a parameter: production reads the steady clock, the simulator jumps from one due time to the next.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace kintsugi {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;
using WallTime = std::chrono::time_point<std::chrono::system_clock, Duration>;

using namespace std::chrono_literals;

/// Seconds as a number, for rates, records and people; decisions compare durations.
constexpr double to_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

namespace runtime {

enum class TimerId : uint64_t { kNone = 0 };

/// Not thread-safe: a clock belongs to the thread of its io_context, except `now` and `wall_now`.
class Clock {
 public:
  virtual ~Clock() = default;

  virtual TimePoint now() const = 0;
  /// The date, for people and for expiries that cross servers; it may jump.
  virtual WallTime wall_now() const = 0;

  /// Runs `callback` once at `due` (never inside this call). Timers of one due time run in the order they were made.
  virtual TimerId call_at(TimePoint due, std::function<void()> callback) = 0;
  /// False if it ran already, or is unknown. A cancelled callback never runs.
  virtual bool cancel(TimerId timer) = 0;
};

}  // namespace runtime
}  // namespace kintsugi
