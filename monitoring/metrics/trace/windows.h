/// Stretches of rows, and how much their metrics move together. Pure.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include <Eigen/Core>

#include "monitoring/metrics/trace/series.h"

namespace kintsugi::metric_trace {

/// One number for each pair of metrics: (0,1), (0,2), ... (0,N-1), (1,2), ...; NaN: void.
using PairVector = std::vector<float>;

inline size_t pairs_of(size_t metrics) {
  return metrics < 2 ? 0 : metrics * (metrics - 1) / 2;
}

/// The two metrics of each entry of a PairVector.
std::vector<std::pair<uint32_t, uint32_t>> pair_table(size_t metrics);

/// First rows of windows that lie in one segment each: every `stride` rows.
std::vector<size_t> window_begins(const std::vector<Segment>& segments, size_t size, size_t stride);

/// Correlation coefficients of the columns of a window (Laguna 2012, equation 6.2). A
/// metric that does not change has 0 with all; one with a NaN makes its pairs void.
PairVector correlations(const Eigen::Ref<const Eigen::MatrixXd>& window);

/// The same with standard deviations from elsewhere (Laguna 2012, equation 7.2): covariances divided by the product of
/// two of `deviations`, so amplitude counts, too.
PairVector scaled_covariances(const Eigen::Ref<const Eigen::MatrixXd>& window,
                              std::span<const double> deviations);

/// Parts of a healthy trace that are left out in turn: its segments when there are at least `fewest`, else `fewest`
/// stretches of equal length. Returns the part of each row.
std::vector<uint32_t> parts_of_rows(const std::vector<Segment>& segments, size_t rows, size_t fewest);

}  // namespace kintsugi::metric_trace
