/// Keeps events that anybody can cause from filling the log.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "common/runtime/clock.h"

namespace kintsugi::rpc {

/// Lets `most` lines of one kind through in each period, and counts the others.
class RateLimit {
 public:
  RateLimit(size_t most, Duration period) : most_(most), period_(period) {}

  /// None: the line is to be left out. Else how many were left out since the last one that was let through.
  std::optional<size_t> allow(TimePoint now) {
    if (!begun_ || now >= *begun_ + period_) {
      begun_ = now;
      said_ = 0;
    }
    if (said_ == most_) {
      ++left_out_;
      return std::nullopt;
    }
    ++said_;
    return std::exchange(left_out_, 0);
  }

 private:
  const size_t most_;
  const Duration period_;
  std::optional<TimePoint> begun_;  ///< time at which the present period began
  size_t said_ = 0, left_out_ = 0;
};

}  // namespace kintsugi::rpc
