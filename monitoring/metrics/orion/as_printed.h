/// ORION in the form of the text (Laguna 2012, chapter 6): what ours is compared with. Pure.
///
/// It takes windows of 100, 125, 150, 175 and 200 rows that do not overlap, of a healthy and a failed trace.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "monitoring/metrics/trace/series.h"
#include "monitoring/metrics/trace/windows.h"

namespace kintsugi::orion {

inline constexpr size_t kWindowSizes[] = {100, 125, 150, 175, 200};
/// The text's k: windows, correlations and metrics that are taken.
inline constexpr size_t kMostAbnormal = 3;

/// A window, its distance to the nearest healthy one, and the pairs of metrics that contribute most, the largest first.
struct OddWindow {
  double distance = 0;
  std::vector<std::pair<size_t, double>> pairs;  ///< index into pair_table(), squared difference
};

/// The distance of `window` to the nearest of `healthy` (fig. 6.3); void pairs are left out and the rest scaled up.
/// REQUIRES: `healthy` is not empty.
OddWindow nearest(const metric_trace::PairVector& window,
                  const std::vector<metric_trace::PairVector>& healthy);

struct Votes {
  size_t column = 0;  ///< column of the series
  uint32_t votes = 0;
  double squares = 0;  ///< squares of the differences that voted: they decide between equal votes
};

/// The metrics by their votes, those without any left out (fig. 6.3). kNotFound: one of the traces is shorter than a window.
Result<std::vector<Votes>> metrics_as_printed(const metric_trace::Series& healthy,
                                              const metric_trace::Series& failed,
                                              const std::vector<size_t>& columns);

}  // namespace kintsugi::orion
