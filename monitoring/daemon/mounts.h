/// The mounts that report what they do for their applications, and how much that is lately.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "monitoring/model/snapshot.h"

namespace kintsugi::monitoring {

/// One for each machine and mount point, ordered by these: the process that serves it now. At most kMostMounts; those
/// that have not been heard of for kForgetMount are left out.
inline constexpr size_t kMostMounts = 200;
inline constexpr Duration kForgetMount = std::chrono::minutes(3);
std::vector<const model::ProcessView*> mounts_of(const model::Snapshot& snapshot);

/// What a mount did over the last half a minute, about.
struct MountTrend {
  double operations_per_second = 0, errors_per_second = 0;
  /// Mean time of an operation; waits for locks that other applications have are left out. 0: there was none.
  double latency_seconds = 0;
  double read_bytes_per_second = 0, written_bytes_per_second = 0;
};

/// Not thread-safe.
class MountTrends {
 public:
  static constexpr Duration kStep = std::chrono::seconds(5);  ///< interval of samples
  static constexpr size_t kSamples = 7;                       ///< samples of one mount

  /// To be called once a second; it samples when kStep has passed.
  void look(const model::Snapshot& snapshot);
  /// Null: nothing is known of the process.
  const MountTrend* of(uint64_t process) const;

 private:
  struct Sample {
    TimePoint at{};
    uint64_t operations = 0, errors = 0, ns = 0, read_bytes = 0, written_bytes = 0;
  };
  struct Series {
    std::deque<Sample> samples;
    MountTrend trend;
  };
  static Sample sample_of(const model::ProcessView& view);

  TimePoint last_{};
  std::map<uint64_t, Series> mounts_;  ///< key: process
};

}  // namespace kintsugi::monitoring
