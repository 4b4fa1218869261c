#include "tests/benchmarks/opprox/association.h"

#include <algorithm>
#include <cmath>

#include "common/base/draws.h"

namespace kintsugi::opprox {

std::vector<size_t> associated(std::span<const std::vector<double>> columns, std::span<const double> target,
                               const Association& association, const AssociationRule& rule) {
  std::vector<size_t> kept;
  for (size_t column = 0; column < columns.size(); ++column) {
    const double strength = association(columns[column], target);
    if (strength < rule.least) continue;
    Draws draws(rule.seed + column);
    std::vector<double> shuffled(target.begin(), target.end()), by_chance;
    for (size_t i = 0; i < rule.permutations; ++i) {
      draws.shuffle(shuffled);
      by_chance.push_back(association(columns[column], shuffled));
    }
    std::ranges::sort(by_chance);
    const auto at = static_cast<size_t>(rule.quantile * static_cast<double>(by_chance.size()));
    if (by_chance.empty() || strength > by_chance[std::min(at, by_chance.size() - 1)]) kept.push_back(column);
  }
  return kept;
}

}  // namespace kintsugi::opprox
