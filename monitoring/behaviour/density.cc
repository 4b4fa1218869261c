#include "monitoring/behaviour/density.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/base/statistics.h"

namespace kintsugi::behaviour {
namespace {

constexpr size_t kPoints = 4096;
/// Kernels are taken to end this many bandwidths from their centre.
constexpr double kKernelReach = 6;
constexpr double kQuartilesApart = 1.34;

double normal_below(double z) {
  return 0.5 * std::erfc(-z / std::numbers::sqrt2);
}

}  // namespace

double kernel_bandwidth(double deviation, double interquartile_range, double count) {
  const double spread =
      interquartile_range > 0 ? std::min(deviation, interquartile_range / kQuartilesApart) : deviation;
  return 0.9 * spread * std::pow(count, -0.2);
}

double kernel_bandwidth(std::span<const double> values) {
  return kernel_bandwidth(deviation_of(values), quantile_of(values, 0.75) - quantile_of(values, 0.25),
                          static_cast<double>(values.size()));
}

ErrorDensity ErrorDensity::normal(double mean, double deviation) {
  ErrorDensity out;
  out.mean_ = mean;
  out.first_ = mean - 8 * deviation;
  out.step_ = std::max(16 * deviation / (kPoints - 1), 1e-12);
  for (size_t i = 0; i < kPoints; ++i)
    out.below_.push_back(normal_below((out.first_ + out.step_ * static_cast<double>(i) - mean) / deviation));
  return out;
}

ErrorDensity ErrorDensity::of(std::vector<double> errors) {
  std::sort(errors.begin(), errors.end());
  const double bandwidth = std::max(kernel_bandwidth(errors), 1e-9 * (1 + std::abs(errors.back())));
  ErrorDensity out;
  out.mean_ = mean_of(errors);
  // The ends of long tails are kept out of the grid, which would be too coarse for the middle otherwise.
  const double low = quantile_of_sorted(errors, 0.0005), high = quantile_of_sorted(errors, 0.9995);
  out.first_ = low - kKernelReach * bandwidth;
  out.step_ = (high - low + 2 * kKernelReach * bandwidth) / (kPoints - 1);
  // Errors are counted by cell of the grid, and each cell's kernel is added to the mass of the cells around.
  std::vector<double> count(kPoints, 0), mass(kPoints, 0);
  for (double error : errors)
    count[static_cast<size_t>(
        std::clamp((error - out.first_) / out.step_, 0.0, static_cast<double>(kPoints - 1)))] += 1;
  const auto reach =
      static_cast<size_t>(std::min(kKernelReach * bandwidth / out.step_ + 1, static_cast<double>(kPoints)));
  std::vector<double> kernel;  // index: distance in cells; share of the kernel's area in that cell
  for (size_t away = 0; away <= reach; ++away) {
    const double at = static_cast<double>(away) * out.step_ / bandwidth, half = 0.5 * out.step_ / bandwidth;
    kernel.push_back(normal_below(at + half) - normal_below(at - half));
  }
  for (size_t cell = 0; cell < kPoints; ++cell) {
    if (count[cell] == 0) continue;
    for (size_t to = cell - std::min(cell, reach); to <= std::min(cell + reach, kPoints - 1); ++to)
      mass[to] += count[cell] * kernel[to > cell ? to - cell : cell - to];
  }
  double sum = 0, total = 0;
  for (double cell : mass)
    total += cell;
  for (double cell : mass) {
    out.below_.push_back(sum / total);
    sum += cell;
  }
  return out;
}

double ErrorDensity::below(double error) const {
  const double at = (error - first_) / step_;
  if (at <= 0) return at == 0 ? below_.front() : 0;
  const auto index = static_cast<size_t>(std::min(at, 1e9));
  if (index + 1 >= below_.size()) return 1;
  return below_[index] + (at - static_cast<double>(index)) * (below_[index + 1] - below_[index]);
}

double ErrorDensity::quantile(double share) const {
  const auto found = std::lower_bound(below_.begin(), below_.end(), share);
  if (found == below_.begin()) return first_;
  if (found == below_.end()) return first_ + step_ * static_cast<double>(below_.size() - 1);
  const auto index = static_cast<size_t>(found - below_.begin());
  const double rise = below_[index] - below_[index - 1];
  const double part = rise > 0 ? (share - below_[index - 1]) / rise : 0;
  return first_ + step_ * (static_cast<double>(index - 1) + part);
}

double ErrorDensity::share_right_of_mean(double distance) const {
  const double at_mean = below(mean_), right = 1 - at_mean;
  if (distance <= 0 || right <= 0) return distance > 0 ? 1 : 0;
  return std::clamp((below(mean_ + distance) - at_mean) / right, 0.0, 1.0);
}

}  // namespace kintsugi::behaviour
