#include "tests/texts/metrics/blacksheep_as_printed.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>

#include "common/base/statistics.h"

namespace kintsugi::blacksheep {

std::vector<size_t> change_points_as_printed(std::span<const double> values, size_t window,
                                             double threshold) {
  std::vector<size_t> out;
  std::deque<double> recent;
  double reported = 0;
  for (size_t i = window; i + window < values.size(); ++i) {
    const double left = mean_of(values.subspan(i - window, window));
    const double difference = std::abs(left - mean_of(values.subspan(i + 1, window)));
    recent.push_back(difference);
    if (recent.size() > window) recent.pop_front();
    if (difference < std::ranges::max(recent) || difference <= reported || difference <= threshold * left)
      continue;
    reported = difference;
    out.push_back(i);
  }
  return out;
}

Corroboration corroborate_exactly(std::span<const size_t> metric, std::span<const size_t> state,
                                  size_t instants) {
  std::vector<size_t> both;
  std::ranges::set_intersection(metric, state, std::back_inserter(both));
  return {.true_positives = static_cast<double>(both.size()),
          .matches = both.size(),
          .false_positives = metric.size() - both.size(),
          .false_negatives = state.size() - both.size(),
          .instants = instants};
}

}  // namespace kintsugi::blacksheep
