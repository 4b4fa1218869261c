/// Which metrics of a healthy trace say something, and which say the same. Pure.
#pragma once

#include <vector>

#include "monitoring/metrics/trace/series.h"

namespace kintsugi::metric_trace {

/// A metric that hardly moves on the healthy trace: when it does later, that is a finding by itself.
struct Watched {
  size_t column = 0;
  double low = 0, high = 0;  ///< the metric's range on the healthy trace
};

/// A metric and those that always move with it.
struct Live {
  size_t column = 0;            ///< the first of the group
  std::vector<size_t> aliases;  ///< the other metrics of the group
};

struct Preparation {
  std::vector<Live> live;
  std::vector<Watched> watched;
  std::vector<size_t> unknown;  ///< columns without a value in most rows
  size_t left_out = 0;          ///< metrics above kMostLive that would have been live

  std::vector<size_t> columns() const;  ///< the columns of `live`
};

/// So many metrics are compared in pairs at most; the first ones in the order of the trace.
inline constexpr size_t kMostLive = 1000;
/// A metric is constant below this ratio of deviation to mean, or with one value in more than this share of its rows.
inline constexpr double kConstantVariation = 1e-3;
inline constexpr double kConstantShare = 0.995;
/// Metrics are duplicates with this correlation in this share of the windows of kDuplicateWindow rows.
inline constexpr double kDuplicateCorrelation = 0.98;
inline constexpr double kDuplicateShare = 0.9;
inline constexpr size_t kDuplicateWindow = 100;

Preparation prepare(const Series& healthy);

}  // namespace kintsugi::metric_trace
