#include "tests/texts/metrics/augury_as_printed.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <Eigen/QR>

#include "common/base/statistics.h"

namespace kintsugi::augury {

using metric_trace::PairVector;
using metric_trace::Series;

double nearest_distance(const PairVector& vector, const std::vector<PairVector>& vectors) {
  double best = std::numeric_limits<double>::infinity();
  for (const PairVector& other : vectors) {
    const Eigen::Map<const Eigen::ArrayXf> a(vector.data(), static_cast<Eigen::Index>(vector.size()));
    const Eigen::Map<const Eigen::ArrayXf> b(other.data(), a.size());
    const float sum = (a - b).square().sum();
    if (std::isfinite(sum)) best = std::min(best, std::sqrt(static_cast<double>(sum)));
  }
  return best;
}

Result<Sphere> Sphere::learn(const Series& healthy, const std::vector<size_t>& columns,
                             const std::vector<ModelSet>* ahead, size_t stride) {
  constexpr size_t kParts = 8;
  Sphere out;
  out.ahead_ = ahead;
  const Eigen::MatrixXd values = healthy.values(Eigen::all, columns);
  for (Eigen::Index i = 0; i < values.cols(); ++i) {
    std::vector<double> known;
    for (const double value : values.col(i))
      if (std::isfinite(value)) known.push_back(value);
    out.deviations_.push_back(deviation_of(known));
  }
  const std::vector<uint32_t> parts = metric_trace::parts_of_rows(healthy.segments, healthy.rows(), kParts);
  std::vector<uint32_t> part_of;
  for (const size_t begin : metric_trace::window_begins(healthy.segments, kWindow, stride)) {
    const auto window = values.middleRows(static_cast<Eigen::Index>(begin), kWindow);
    if (!window.allFinite()) continue;
    out.vectors_.push_back(out.vector_of(window));
    part_of.push_back(parts[begin]);
  }
  std::vector<double> distances;
  for (size_t i = 0; i < out.vectors_.size(); ++i) {
    std::vector<PairVector> others;
    for (size_t j = 0; j < out.vectors_.size(); ++j)
      if (part_of[j] != part_of[i]) others.push_back(out.vectors_[j]);
    if (!others.empty()) distances.push_back(nearest_distance(out.vectors_[i], others));
  }
  if (distances.empty())
    return Status(Code::kNotFound,
                  "not enough data because the healthy trace has no windows of 100 known rows");
  out.threshold_ = quantile_of(distances, 0.999);
  return out;
}

PairVector Sphere::vector_of(const Eigen::MatrixXd& window) const {
  if (ahead_ == nullptr) return metric_trace::scaled_covariances(window, deviations_);
  Eigen::MatrixXd longer(window.rows() + static_cast<Eigen::Index>(kAhead), window.cols());
  longer.topRows(window.rows()) = window;
  longer.bottomRows(kAhead) = window.bottomRows(1).replicate(kAhead, 1);
  for (Eigen::Index i = 0; i < window.cols(); ++i) {
    const ModelSet& models = (*ahead_)[static_cast<size_t>(i)];
    if (models.empty()) continue;
    const Eigen::VectorXf values = window.col(i).cast<float>();
    longer.col(i).tail(kAhead) = models.forecast(models.fitted(values), values).cast<double>();
  }
  return metric_trace::scaled_covariances(longer, deviations_);
}

double Sphere::distance(const Eigen::MatrixXd& window) const {
  return nearest_distance(vector_of(window), vectors_);
}

std::vector<double> polynomial_forecast(std::span<const double> values, double enough, int most,
                                        size_t steps) {
  const auto rows = static_cast<Eigen::Index>(values.size());
  const Eigen::Map<const Eigen::VectorXd> y(values.data(), rows);
  const double spread = (y.array() - y.mean()).square().sum();
  const auto powers = [&](Eigen::Index from, Eigen::Index count, int order) {
    Eigen::MatrixXd out(count, order + 1);
    for (Eigen::Index i = 0; i < count; ++i)
      for (int j = 0; j <= order; ++j)
        out(i, j) = std::pow(static_cast<double>(from + i) / static_cast<double>(rows), j);
    return out;
  };
  Eigen::VectorXd coefficients;
  int order = 1;
  for (;; ++order) {
    const Eigen::MatrixXd x = powers(0, rows, order);
    coefficients = x.colPivHouseholderQr().solve(y);
    const double left = (y - x * coefficients).squaredNorm();
    if (order >= most || spread == 0 || 1 - left / spread >= enough) break;
  }
  const Eigen::VectorXd next = powers(rows, static_cast<Eigen::Index>(steps), order) * coefficients;
  return {next.begin(), next.end()};
}

bool Band::left_by(std::span<const double> values, double times) const {
  return std::ranges::any_of(values,
                             [&](double value) { return std::abs(value - mean) > times * deviation; });
}

Band band_of(std::span<const double> training) {
  const double n = static_cast<double>(training.size());
  return {.mean = mean_of(training),
          .deviation = deviation_of(training) * std::sqrt(n / std::max(n - 1, 1.0))};
}

}  // namespace kintsugi::augury
