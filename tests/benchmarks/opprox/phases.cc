#include "tests/benchmarks/opprox/phases.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kintsugi::opprox {

double largest_difference(std::span<const double> means) {
  double largest = 0;
  for (size_t i = 1; i < means.size(); ++i)
    largest = std::max(largest, std::abs(means[i] - means[i - 1]));
  return largest;
}

PhaseChoice choose_phases(const PhaseSearch& search, const std::function<double(size_t)>& difference) {
  PhaseChoice choice;
  choice.differences.push_back(difference(choice.phases));
  double compared = choice.differences.front();
  while (2 * choice.phases <= search.most) {
    const double finer = difference(2 * choice.phases);
    choice.differences.push_back(finer);
    if (std::abs(compared - finer) <= search.threshold) break;
    choice.phases *= 2;
    if (search.rule == PhaseRule::kPrevious) compared = finer;
  }
  return choice;
}

double overall_speedup(double exact, double local, double approximate) {
  return exact * local / approximate;
}

double combined_speedup(std::span<const double> of_phases) {
  double left = 1;
  for (const double speedup : of_phases)
    left -= 1 - 1 / speedup;
  return left > 0 ? 1 / left : std::numeric_limits<double>::infinity();
}

}  // namespace kintsugi::opprox
