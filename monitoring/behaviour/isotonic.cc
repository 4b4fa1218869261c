#include "monitoring/behaviour/isotonic.h"

#include <algorithm>

#include <Eigen/Cholesky>
#include <Eigen/Core>

#include "common/base/statistics.h"

namespace kintsugi::behaviour {
namespace {

/// Pairs are taken together in groups of about this many along the distance first, so that single large errors at the
/// far end do not decide how steep the curve continues.
constexpr size_t kGroup = 10;
constexpr size_t kMostGroups = 20;

}  // namespace

std::vector<double> isotonic(const std::vector<double>& values, const std::vector<double>& weights) {
  struct Block {
    double value, weight;
    size_t members;
  };
  std::vector<Block> blocks;
  for (size_t i = 0; i < values.size(); ++i) {
    blocks.push_back({values[i], weights[i], 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].value > blocks.back().value) {
      const Block last = blocks.back();
      blocks.pop_back();
      Block& before = blocks.back();
      before.value =
          (before.value * before.weight + last.value * last.weight) / (before.weight + last.weight);
      before.weight += last.weight;
      before.members += last.members;
    }
  }
  std::vector<double> out;
  for (const Block& block : blocks)
    out.insert(out.end(), block.members, block.value);
  return out;
}

ErrorByDistance::ErrorByDistance(std::vector<std::pair<double, double>> pairs, Shape shape,
                                 double mean_to_median)
    : shape_(shape), empty_(pairs.empty()) {
  if (empty_) return;
  std::sort(pairs.begin(), pairs.end());
  if (shape == Shape::kQuadratic) {
    Eigen::Matrix3d sums = Eigen::Matrix3d::Zero();
    Eigen::Vector3d right = Eigen::Vector3d::Zero();
    for (const auto& [distance, error] : pairs) {
      const Eigen::Vector3d row(1, distance, distance * distance);
      sums += row * row.transpose();
      right += row * error;
    }
    sums.diagonal().array() += 1e-12;
    const Eigen::Vector3d solved = sums.ldlt().solve(right);
    parabola_ = {solved(0), solved(1), solved(2)};
    return;
  }
  const size_t groups = std::clamp<size_t>(pairs.size() / kGroup, 1, kMostGroups);
  std::vector<double> distances, errors, weights;
  for (size_t g = 0; g < groups; ++g) {
    const size_t begin = g * pairs.size() / groups, end = (g + 1) * pairs.size() / groups;
    double distance = 0;
    std::vector<double> sizes;
    for (size_t i = begin; i < end; ++i) {
      distance += pairs[i].first;
      sizes.push_back(pairs[i].second);
    }
    const auto count = static_cast<double>(end - begin);
    distances.push_back(distance / count);
    errors.push_back(median_of(sizes) * mean_to_median);
    weights.push_back(count);
  }
  errors = isotonic(errors, weights);
  for (size_t g = 0; g < groups; ++g)
    points_.emplace_back(distances[g], errors[g]);
  const auto& middle = points_[points_.size() / 2];
  const auto& last = points_.back();
  const double across = last.first - middle.first, along = last.first - points_.front().first;
  if (across > 0) slope_ = (last.second - middle.second) / across;
  if (along > 0) slope_ = std::max(slope_, (last.second - points_.front().second) / along);
}

double ErrorByDistance::at(double distance) const {
  if (empty_) return 0;
  if (shape_ == Shape::kQuadratic)
    return std::max(0.0, parabola_[0] + distance * (parabola_[1] + distance * parabola_[2]));
  if (distance <= points_.front().first) return points_.front().second;
  if (distance >= points_.back().first)
    return points_.back().second + slope_ * (distance - points_.back().first);
  const auto high = std::upper_bound(points_.begin(), points_.end(), distance,
                                     [](double d, const auto& point) { return d < point.first; });
  const auto low = high - 1;
  const double width = high->first - low->first;
  return width > 0 ? low->second + (distance - low->first) / width * (high->second - low->second)
                   : high->second;
}

}  // namespace kintsugi::behaviour
