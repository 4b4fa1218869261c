#include "tracing/cause/difference.h"

#include <algorithm>
#include <cmath>

namespace kintsugi::cause {

std::vector<Difference> differences(const anomaly::Profile& anomalous, const anomaly::Profile& normal,
                                    size_t most) {
  const auto key = [](const auto& one) { return std::tuple(one.measure, one.path); };
  std::vector<Difference> all;
  for (auto a = anomalous.begin(), b = normal.begin(); a != anomalous.end() || b != normal.end();) {
    const bool take_a = b == normal.end() || (a != anomalous.end() && key(*a) <= key(*b));
    const bool take_b = a == anomalous.end() || (b != normal.end() && key(*b) <= key(*a));
    const anomaly::Component& one = take_a ? *a : *b;
    all.push_back({.measure = one.measure,
                   .path = one.path,
                   .anomalous = take_a ? a->value : 0,
                   .normal = take_b ? b->value : 0});
    a += take_a;
    b += take_b;
  }
  std::stable_sort(all.begin(), all.end(), [](const Difference& a, const Difference& b) {
    return std::abs(a.delta()) > std::abs(b.delta());
  });
  if (all.size() > most) all.resize(most);
  return all;
}

}  // namespace kintsugi::cause
