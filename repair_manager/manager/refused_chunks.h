/// Counts the chunks that a full queue did not take, so that one line tells of all of them.
#pragma once

#include <cstdint>

#include "common/runtime/clock.h"

namespace kintsugi::repair_manager {

class RefusedChunks {
 public:
  static constexpr Duration kTellEvery = std::chrono::minutes(1);

  /// One more was refused. Returns how many were since the last line when it is time for another one, else 0.
  uint64_t count(TimePoint now) {
    ++untold_;
    if (now < tell_at_) return 0;
    tell_at_ = now + kTellEvery;
    const uint64_t told = untold_;
    untold_ = 0;
    return told;
  }

 private:
  uint64_t untold_ = 0;
  TimePoint tell_at_{};
};

}  // namespace kintsugi::repair_manager
