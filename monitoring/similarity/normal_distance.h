/// How different two normal distributions are: the closed form, and the table that the text uses instead (Laguna 2012,
/// section 4.2.2). Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace kintsugi::similarity {

struct Normal {
  double mean = 0, deviation = 1;  ///< the deviation is above 0
};

/// The integral of the squared difference of the two densities. Its unit is one over the values' unit.
double squared_l2(const Normal& a, const Normal& b);

/// squared_l2 over the sum of the integrals of both squared densities: free of units, in [0, 1], 0 of equals.
double normalised_l2(const Normal& a, const Normal& b);

/// normalised_l2 from a table by the ratio of the deviations and by the distance of the means in units of the smaller
/// deviation, linear between its points. Beyond its ends (a ratio of 32, a distance of 16) the closed form is taken.
class L2Table {
 public:
  static constexpr double kLargestRatio = 32, kLargestDistance = 16;
  explicit L2Table(size_t points = 500);
  double operator()(const Normal& a, const Normal& b) const;
  size_t bytes() const { return values_.size() * sizeof(float); }

 private:
  size_t points_;
  /// The distances, ordered by ratio (whose logarithms are equidistant), then by distance.
  std::vector<float> values_;
};

}  // namespace kintsugi::similarity
