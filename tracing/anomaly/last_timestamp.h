/// The process that fell silent first (Mirgorodskiy 2006, section 5.2.1).
#pragma once

#include <span>

#include "tracing/flow/trace.h"

namespace kintsugi::anomaly {

/// Of a process that has work, or a heartbeat: an idle one has no records and nothing to compare.
struct LastRecord {
  uint32_t process = 0;
  int64_t last_ns =
      0;  ///< when its last record was written, by a clock that all hosts share, if all ended at once
  int64_t longest_gap_ns = 0;  ///< between two of its records
};

/// Of all processes that have records, in their order.
std::vector<LastRecord> last_records(const flow::Trace& trace);

enum class Silence : uint8_t {
  kFailStop,     ///< `earliest` ended long before the others
  kNotFailStop,  ///< all ended at about the same time: look for what was unlike (suspect_score.h)
  kTooFew,       ///< fewer than three processes
};

struct EarliestLast {
  Silence silence = Silence::kTooFew;
  uint32_t earliest =
      flow::kNone;           ///< the process whose last record is the earliest; kNone if there are too few
  int64_t before_ns = 0;     ///< how long before the mean of the others
  int64_t threshold_ns = 0;  ///< what that would have to be above
};

/// Fail-stop if the earliest last record is further before the mean of the others than 3 of their standard deviations, 10
/// times the precision of the clocks, and any gap between two records of one of them: none of them was ever silent for so long and
/// then went on. The text compares with the mean and
/// deviation of all; with n of them none is more than (n - 1) / sqrt(n) deviations away, so 10 or fewer never could.
EarliestLast earliest_last(std::span<const LastRecord> records, int64_t clock_precision_ns);

}  // namespace kintsugi::anomaly
