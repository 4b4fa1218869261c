#include "monitoring/behaviour/guardian.h"

#include <algorithm>
#include <cmath>

namespace kintsugi::behaviour {

Judgement judge(double predicted, double error, const ExtrapolationErrors::At& expected,
                const ErrorDensity& inside, bool more_only) {
  Judgement out{.predicted = predicted,
                .error = error,
                .expected = expected.error,
                .known = expected.known,
                .extrapolated = expected.beyond};
  if (!expected.known || !std::isfinite(error)) {
    out.known = false;
    return out;
  }
  const double size = more_only ? std::max(error, 0.0) : std::abs(error);
  out.beyond = std::max(0.0, size - expected.error);
  out.probability = inside.share_right_of_mean(out.beyond);
  return out;
}

double binomial_tail(size_t found, size_t of, double chance) {
  if (found == 0) return 1;
  if (found > of || chance <= 0) return 0;
  if (chance >= 1) return 1;
  double sum = 0;
  for (size_t k = found; k <= of; ++k) {
    const auto n = static_cast<double>(of), hits = static_cast<double>(k);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(hits + 1) - std::lgamma(n - hits + 1) +
                    hits * std::log(chance) + (n - hits) * std::log1p(-chance));
  }
  return std::min(1.0, sum);
}

double RecentExecutions::chance(double far_chance, double off_chance) const {
  return std::min(
      1.0, 2 * std::min(binomial_tail(far(), seen_, far_chance), binomial_tail(off(), seen_, off_chance)));
}

std::vector<bool> benjamini_hochberg(std::span<const double> p_values, double share) {
  std::vector<size_t> order(p_values.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  size_t rejected = 0;
  for (size_t k = 0; k < order.size(); ++k)
    if (p_values[order[k]] <= share * static_cast<double>(k + 1) / static_cast<double>(order.size()))
      rejected = k + 1;
  std::vector<bool> out(p_values.size(), false);
  for (size_t k = 0; k < rejected; ++k)
    out[order[k]] = true;
  return out;
}

}  // namespace kintsugi::behaviour
