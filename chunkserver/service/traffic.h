/// Measures what goes over a server's link: now, and at most.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "common/runtime/clock.h"

namespace kintsugi::chunkserver {

/// Bytes per second over the last moments: a byte that came kMemory ago counts for a third of one that comes now.
class RecentRate {
 public:
  static constexpr Duration kMemory = std::chrono::milliseconds(150);

  void add(uint64_t bytes, TimePoint now) {
    rate_ = per_second(now) + static_cast<double>(bytes) / std::chrono::duration<double>(kMemory).count();
    at_ = now;
  }
  double per_second(TimePoint now) const {
    return rate_ * std::exp(-std::chrono::duration<double>(now - at_) / kMemory);
  }

 private:
  double rate_ = 0;
  TimePoint at_;
};

/// The most bytes a second that were carried for kSeconds in a row; old peaks fade. One second alone proves nothing
/// about a link: several megabytes of it may be in the buffers of the kernel's sockets.
class SustainedPeak {
 public:
  static constexpr size_t kSeconds = 3;
  static constexpr Duration kHalfLife = std::chrono::minutes(30);

  void add(uint64_t bytes, TimePoint now) {
    turn_to(now);
    current_ += bytes;
  }
  double per_second(TimePoint now) {
    turn_to(now);
    return faded(now);
  }

 private:
  double faded(TimePoint now) const {
    return peak_ * std::exp2(-std::chrono::duration<double>(now - peak_at_) / kHalfLife);
  }
  void turn_to(TimePoint now) {
    const int64_t second = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
    // After more than kSeconds all windows are empty, however long it was.
    const int64_t turns = std::clamp<int64_t>(second - second_, 0, kSeconds + 1);
    for (int64_t i = 0; i < turns; ++i) {
      std::rotate(complete_.begin(), complete_.begin() + 1, complete_.end());
      complete_.back() = current_;
      current_ = 0;
      const auto least = static_cast<double>(*std::min_element(complete_.begin(), complete_.end()));
      if (least < faded(now)) continue;
      peak_ = least;
      peak_at_ = now;
    }
    second_ = std::max(second_, second);
  }

  int64_t second_ = 0;
  uint64_t current_ = 0;
  std::array<uint64_t, kSeconds> complete_{};
  double peak_ = 0;
  TimePoint peak_at_;
};

/// Traffic of a server's link in both directions, all its connections together.
struct LinkTraffic {
  uint64_t bytes_sent = 0, bytes_received = 0;
  SustainedPeak up, down;

  void sent(uint64_t bytes, TimePoint now) {
    bytes_sent += bytes;
    up.add(bytes, now);
  }
  void received(uint64_t bytes, TimePoint now) {
    bytes_received += bytes;
    down.add(bytes, now);
  }
};

}  // namespace kintsugi::chunkserver
