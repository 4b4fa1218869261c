#include "tests/texts/noise_weights.h"

#include <algorithm>
#include <cmath>

#include "common/base/statistics.h"

namespace kintsugi::similarity {
namespace {

constexpr double kLeastNoise = 0.1;

}  // namespace

NoiseWeights noise_weights(const std::vector<Model>& models, Form form) {
  struct Sum {
    double squares = 0, pairs = 0;
  };
  std::map<Transition, Sum> sums;
  for (size_t i = 0; i < models.size(); ++i)
    for (size_t j = i + 1; j < models.size(); ++j)
      for (const Edge& edge : models[i].edges())
        if (const Edge* same = models[j].find(edge.transition)) {
          const double apart = time_difference(edge, *same, form);
          Sum& sum = sums[edge.transition];
          sum.squares += apart * apart;
          sum.pairs += 1;
        }
  NoiseWeights out;
  std::vector<double> all;
  for (const auto& [transition, sum] : sums) {
    out[transition] = std::sqrt(sum.squares / sum.pairs);
    all.push_back(out[transition]);
  }
  const double least = kLeastNoise * median_of(all);
  for (auto& [transition, weight] : out)
    weight = std::max(weight, least > 0 ? least : 1);
  return out;
}

double difference(const Model& a, const Model& b, Form form, const NoiseWeights& noise) {
  double sum = 0;
  for (const Term& term : terms(a, b, form)) {
    const auto known = term.state ? noise.end() : noise.find(term.transition);
    sum += known != noise.end() && known->second > 0 ? term.magnitude / known->second : term.magnitude;
  }
  return sum;
}

}  // namespace kintsugi::similarity
