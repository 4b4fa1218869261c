/// When it began: the first moment at which the anomalous process was unlike the others (Mirgorodskiy 2006, section 5.3.3).
#pragma once

#include <optional>

#include "tracing/anomaly/suspect_score.h"

namespace kintsugi::cause {

struct IntervalSettings {
  uint32_t fragments = 48;  ///< the text names no number
  uint32_t in_a_row = 2;    ///< one fragment alone may be an accident
};

struct AnomalousInterval {
  uint32_t fragment = 0;
  int64_t begin_ns = 0, end_ns = 0;  ///< begin and end of that fragment
};

/// The earliest fragment, of equal parts of the whole trace, from which on `anomalous` is the top outlier among `candidates`
/// by its time profile, in so many fragments in a row. None if there is no such fragment.
/// REQUIRES: both are groups; `candidates` has `anomalous`. Errors: those of anomaly::rank.
Result<std::optional<AnomalousInterval>> anomalous_interval(const flow::Trace& trace,
                                                            const anomaly::Groups& groups,
                                                            std::span<const uint32_t> candidates,
                                                            uint32_t anomalous, anomaly::CallPaths& paths,
                                                            const IntervalSettings& settings = {});

}  // namespace kintsugi::cause
