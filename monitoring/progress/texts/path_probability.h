/// Dependences between tasks by the probabilities of going from one state to the other (Laguna et al. 2015, table 1).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "monitoring/progress/counts/dependence.h"
#include "monitoring/progress/counts/markov.h"

namespace kintsugi::progress {

/// One odd transition among a thousand does not turn "always" into "sometimes".
inline constexpr double kEpsilon = 0.001;

/// The table, for P(first -> second) and P(second -> first). "1" is at least 1 - epsilon, "0" at most epsilon.
Dependence dependence(double forward, double backward, double epsilon);
/// Prodometer's rule outside of loops: the higher of the two decides.
Dependence higher_decides(double forward, double backward);

/// The probability of ever coming to `to` from `from`: the chain with `to` absorbing, solved on the states that can
/// reach it.
class HittingProbability {
 public:
  explicit HittingProbability(const Markov& model) : model_(model) {}
  double operator()(uint32_t from, uint32_t to) const;

 private:
  const std::vector<double>& towards(uint32_t to) const;

  const Markov& model_;
  mutable std::map<uint32_t, std::vector<double>> known_;  ///< key: target
};

/// The text's baseline: the sum over simple paths, by depth first search that ends after `limit` calls.
double simple_path_probability(const Markov& model, uint32_t from, uint32_t to, size_t limit = 1'000);

}  // namespace kintsugi::progress
