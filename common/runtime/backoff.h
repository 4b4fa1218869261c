/// Pauses between attempts at what may succeed later.
///
/// ```cpp
/// runtime::Backoff backoff(runtime.random, 100ms, 2s);
/// while (!(status = co_await attempt()).ok()) {
///   const auto pause = backoff.next_before(runtime.clock.now(), give_up);
///   if (!pause) co_return status;
///   if (!co_await tasks.sleep_for(*pause)) co_return cancelled;
/// }
/// ```
#pragma once

#include <algorithm>
#include <optional>

#include "common/base/assert.h"
#include "common/runtime/clock.h"
#include "common/runtime/random.h"

namespace kintsugi::runtime {

/// Each pause is twice as long as the one before, up to a bound, less a random part of it: those who failed at the
/// same time do not come back at the same time.
class Backoff {
 public:
  /// A pause is shortened by less than this part of it.
  static constexpr int64_t kJitterPart = 4;

  /// `random` outlives it. REQUIRES: 0 < first <= longest.
  Backoff(Random& random, Duration first, Duration longest)
      : random_(random), first_(first), longest_(longest), next_(first) {
    KINTSUGI_ASSERT(first > Duration{} && first <= longest);
  }

  Duration next() {
    const Duration pause = next_;
    next_ = std::min(2 * next_, longest_);
    const auto most = static_cast<uint64_t>(pause.count() / kJitterPart);
    return most == 0 ? pause : pause - Duration(static_cast<int64_t>(random_.below(most)));
  }
  /// As next(). Nothing when it would be too late after that pause: the last error stands then.
  std::optional<Duration> next_before(TimePoint now, TimePoint give_up) {
    if (next_ >= give_up - now) return {};
    return next();
  }
  /// Something succeeded: the next pause is the first one again.
  void reset() { next_ = first_; }

 private:
  Random& random_;
  const Duration first_, longest_;
  Duration next_;
};

}  // namespace kintsugi::runtime
