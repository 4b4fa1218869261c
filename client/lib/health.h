/// A client's experience with servers: which ones failed or lagged lately, and how long fetches take.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/base/ids.h"
#include "common/runtime/clock.h"

namespace kintsugi::client {

/// Servers to avoid for a while, because they failed or lagged. It is a hint: when nothing else is left, they are
/// asked anyway.
class ServerHealth {
 public:
  static constexpr Duration kAvoidFor = std::chrono::seconds(5);
  static constexpr size_t kMaxServers = 4096;

  explicit ServerHealth(runtime::Clock& clock) : clock_(clock) {}

  /// The server is avoided from now on for kAvoidFor.
  void failed(ServerId server);
  bool avoid(ServerId server) const;
  /// The servers to avoid, ordered by id.
  std::vector<ServerId> avoided() const;

 private:
  runtime::Clock& clock_;
  std::map<ServerId, TimePoint> until_;
};

/// Recent durations of fetches, by size, and the hedge delay that follows from them.
class FetchTimes {
 public:
  static constexpr size_t kRemembered = 64;  ///< fetches of one size class

  void record(uint64_t bytes, Duration took);
  /// The time that a slow but normal fetch of this size takes: the 90th percentile of recent ones. `unknown` while
  /// there are fewer than kFewest.
  Duration usual_limit(uint64_t bytes, Duration unknown) const;

  static constexpr size_t kFewest = 8;

 private:
  struct Ring {
    std::vector<Duration> durations;
    size_t next = 0;
  };
  static size_t size_class(uint64_t bytes);
  std::array<Ring, 3> rings_;
};

/// How long servers keep writers waiting, and the silence after which one counts as stopped.
class WriteWaits {
 public:
  static constexpr Duration kShortestSilence = std::chrono::milliseconds(700);
  static constexpr Duration kShortestOfSuspect = std::chrono::milliseconds(100);
  static constexpr int kFactor = 4;  ///< a server may take so many times as long as the slowest wait of late

  /// The longest wait of a stripe that was written. It fades over the stripes that follow.
  void record(Duration longest) { longest_ = std::max(longest, longest_ - longest_ / 16); }
  Duration silence(Duration longest_of_stripe) const {
    return std::max(kShortestSilence, kFactor * std::max(longest_, longest_of_stripe));
  }
  /// The limit for a server that another operation has given up just now: twice the longest wait of late.
  Duration silence_of_suspect(Duration longest_of_stripe) const {
    return std::max(kShortestOfSuspect, 2 * std::max(longest_, longest_of_stripe));
  }

 private:
  Duration longest_{};
};

}  // namespace kintsugi::client
