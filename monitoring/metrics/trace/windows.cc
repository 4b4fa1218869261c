#include "monitoring/metrics/trace/windows.h"

#include <cmath>
#include <limits>

namespace kintsugi::metric_trace {
namespace {

/// Upper triangle of AᵀA.
PairVector products(const Eigen::MatrixXd& columns, const std::vector<bool>& voided) {
  const Eigen::MatrixXd gram = columns.transpose() * columns;
  PairVector out;
  out.reserve(pairs_of(voided.size()));
  for (size_t i = 0; i < voided.size(); ++i)
    for (size_t j = i + 1; j < voided.size(); ++j)
      out.push_back(voided[i] || voided[j] ? std::numeric_limits<float>::quiet_NaN()
                                           : static_cast<float>(gram(static_cast<Eigen::Index>(i),
                                                                     static_cast<Eigen::Index>(j))));
  return out;
}

/// Columns without their means, each divided by what `scale` gives for its index and sum of squares.
template <class Scale>
PairVector scaled(const Eigen::Ref<const Eigen::MatrixXd>& window, const Scale& scale) {
  Eigen::MatrixXd columns = window.rowwise() - window.colwise().mean();
  std::vector<bool> voided(static_cast<size_t>(window.cols()));
  for (Eigen::Index i = 0; i < columns.cols(); ++i) {
    const double squares = columns.col(i).squaredNorm();
    voided[static_cast<size_t>(i)] = !std::isfinite(squares);
    const double divisor = scale(static_cast<size_t>(i), squares);
    if (!std::isfinite(squares) || divisor <= 0)
      columns.col(i).setZero();
    else
      columns.col(i) /= divisor;
  }
  return products(columns, voided);
}

}  // namespace

std::vector<std::pair<uint32_t, uint32_t>> pair_table(size_t metrics) {
  std::vector<std::pair<uint32_t, uint32_t>> out;
  out.reserve(pairs_of(metrics));
  for (uint32_t i = 0; i < metrics; ++i)
    for (uint32_t j = i + 1; j < metrics; ++j)
      out.emplace_back(i, j);
  return out;
}

std::vector<size_t> window_begins(const std::vector<Segment>& segments, size_t size, size_t stride) {
  std::vector<size_t> out;
  for (const Segment& segment : segments)
    for (size_t begin = segment.begin; begin + size <= segment.end; begin += stride)
      out.push_back(begin);
  return out;
}

PairVector correlations(const Eigen::Ref<const Eigen::MatrixXd>& window) {
  // Rounding leaves something of a constant: that is no movement.
  const Eigen::RowVectorXd largest = window.cwiseAbs().colwise().maxCoeff();
  return scaled(window, [&](size_t i, double squares) {
    const double noise = 1e-12 * largest(static_cast<Eigen::Index>(i));
    return squares > noise * noise * static_cast<double>(window.rows()) ? std::sqrt(squares) : 0.0;
  });
}

PairVector scaled_covariances(const Eigen::Ref<const Eigen::MatrixXd>& window,
                              std::span<const double> deviations) {
  const double root = std::sqrt(static_cast<double>(std::max<Eigen::Index>(window.rows() - 1, 1)));
  return scaled(window, [&](size_t i, double) { return deviations[i] * root; });
}

std::vector<uint32_t> parts_of_rows(const std::vector<Segment>& segments, size_t rows, size_t fewest) {
  std::vector<uint32_t> out(rows, 0);
  if (segments.size() >= fewest) {
    for (uint32_t i = 0; i < segments.size(); ++i)
      std::fill(out.begin() + static_cast<std::ptrdiff_t>(segments[i].begin),
                out.begin() + static_cast<std::ptrdiff_t>(segments[i].end), i);
    return out;
  }
  for (size_t row = 0; row < rows; ++row)
    out[row] = static_cast<uint32_t>(row * fewest / rows);
  return out;
}

}  // namespace kintsugi::metric_trace
