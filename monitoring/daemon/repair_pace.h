/// How fast chunks are being repaired, as seen from one answer of the metaserver to the next.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "common/proto/meta.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::monitoring {

class RepairPace {
 public:
  static constexpr Duration kWindow = std::chrono::minutes(1);
  /// Fewer chunks, or in less time, say nothing of a pace.
  static constexpr uint64_t kLeastChunks = 4;
  static constexpr Duration kLeastTime = std::chrono::seconds(5);

  /// What the metaserver answered at `now`. A time in which there is nothing to repair does not count, and neither does
  /// what was before a repair manager started again, which then counts from 0.
  void told(TimePoint now, const proto::RepairStatusResponse& repairs);

  /// Chunks that were done in the last kWindow, by the time; none: too few of them.
  std::optional<double> chunks_per_second() const;

 private:
  struct Answer {
    TimePoint at;
    uint64_t done;
  };
  std::deque<Answer> answers_;  ///< answers of the last kWindow, with `done` growing
};

}  // namespace kintsugi::monitoring
