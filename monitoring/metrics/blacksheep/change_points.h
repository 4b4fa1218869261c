/// Where the level of a series changes. Pure.
#pragma once

#include <span>
#include <vector>

namespace kintsugi::blacksheep {

struct ChangeOptions {
  size_t window = 5;     ///< values on each side; positive
  double threshold = 1;  ///< the difference of the means over the lower one
  double floor = 1;      ///< the lower mean counts as so much at least; positive
  double noise = 0;      ///< a difference of the means up to this is none
};

struct Change {
  size_t at = 0;        ///< the first value of the new level
  double strength = 0;  ///< difference of the means over the lower one
  bool rises = false;

  bool operator==(const Change&) const = default;
};

/// Each change once, falls like rises. A window with a NaN has none.
std::vector<Change> change_points(std::span<const double> values, const ChangeOptions& options);

/// The `floor` that suits a series: 1 % of its 99th percentile in healthy runs; 1 if that is nothing.
double floor_of(std::span<const double> healthy);
/// The `noise` that suits it: four times the median distance of the difference of the means to its median, and at most what the
/// steps between neighbouring values let expect. Where work and rest take turns most windows lie over a change, so that the first
/// is as large as the changes. 0 of fewer values than two windows.
double noise_of(std::span<const double> healthy, size_t window);

}  // namespace kintsugi::blacksheep
