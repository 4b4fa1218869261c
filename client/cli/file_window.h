/// How many small files a transfer moves at a time: as many as it pays to.
#pragma once

#include <algorithm>
#include <cstddef>

#include "common/runtime/clock.h"

namespace kintsugi::cli {

/// Follows the time that files take. By Little's law the rate is the number at a time over the time of each; while
/// twice as many give a better rate, the servers' groups grow (their syncs are shared), and it doubles. When a file
/// takes longer for it and no more files come through, something is busy all the time: it goes back, and tries again
/// after a while.
class FileWindow {
 public:
  static constexpr size_t kFirst = 16;
  static constexpr size_t kMost = 128;  ///< each file takes a buffer, and a client has so many by default
  static constexpr size_t kFilesARound = 4;  ///< a round lasts for so many files times the window's size
  static constexpr size_t kRounds = 4;       ///< rounds after a step back before the size grows again

  size_t size() const { return size_; }

  /// A file took so long, from when its turn came.
  void record(Duration took) {
    sum_ += took;
    if (++count_ == kFilesARound * size_) end_round();
  }

 private:
  static constexpr double kWorthIt = 1.05;  ///< doubling the size must raise the rate by this factor

  void end_round() {
    const double rate = static_cast<double>(size_ * count_) / std::max(to_seconds(sum_), 1e-9);
    sum_ = {};
    count_ = 0;
    if (rounds_left_ > 0 && --rounds_left_ > 0) return;
    if (size_ > kFirst && rate < kWorthIt * rate_of_half_) {
      size_ /= 2;
      rounds_left_ = kRounds;
      rate_of_half_ = 0;
    } else if (size_ < kMost) {
      rate_of_half_ = rate;
      size_ *= 2;
    }
  }

  size_t size_ = kFirst;
  size_t count_ = 0;         ///< files moved in this round
  Duration sum_{};           ///< sum of the times that these files took
  double rate_of_half_ = 0;  ///< rate of the last round with half the size; 0: unknown
  size_t rounds_left_ = 0;   ///< rounds left until the size grows again
};

}  // namespace kintsugi::cli
