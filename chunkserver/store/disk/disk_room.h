/// Whether a disk takes more, where its answers differ from the free bytes that it reports.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/runtime/clock.h"

namespace kintsugi::chunkserver {

/// A disk that answered "no space" is full, however many free bytes it reports: it may lack inodes, or have a quota.
/// It takes chunks again once it reports kMore free bytes than it did then, or after kTriedAgainAfter.
class DiskRoom {
 public:
  static constexpr uint64_t kMore = 16 << 20;
  static constexpr Duration kTriedAgainAfter = std::chrono::minutes(1);

  void measured(uint64_t free_bytes) {
    free_bytes_ = free_bytes;
    // What it reported when it refused may have been old.
    refused_with_ = std::min(refused_with_, free_bytes);
  }
  void refused(TimePoint now) {
    refused_with_ = free_bytes_;
    full_until_ = now + kTriedAgainAfter;
  }
  bool full(TimePoint now) const { return now < full_until_ && free_bytes_ < refused_with_ + kMore; }

 private:
  uint64_t free_bytes_ = 0;    ///< latest number that the disk reported
  uint64_t refused_with_ = 0;  ///< least number reported since the disk last answered "no space"
  TimePoint full_until_ = TimePoint::min();
};

}  // namespace kintsugi::chunkserver
