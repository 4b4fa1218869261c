/// How much two models differ, and where: the text's form and ours (Laguna 2012, section 3.3.1, equations 3.1 to 3.4). Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "monitoring/similarity/model.h"

namespace kintsugi::similarity {

enum class Form : uint8_t {
  kText,  ///< models of times in seconds; squared L2 of densities times α; 10 for what only one model has
  kOurs,  ///< models of log2 times; free of units, weighted by how often an edge is used, and a rare path is no difference
};

/// One summand of a difference.
struct Term {
  bool state = false;  ///< of the ways out of the state `transition.from`, not of the time of a transition
  Transition transition;
  double magnitude = 0;
  bool only_one = false;  ///< one model has it, the other has not
};

/// By transition: how much it differs between workers that are well (ν of equation 3.4). What is not in it counts as 1.
using NoiseWeights = std::map<Transition, double>;

/// What counts as too little to compare, in ours.
struct Support {
  static constexpr double kFew = 5;  ///< executions of an edge below which it differs by at most 1
  static constexpr double kLeftOften =
      20;  ///< times a state was left before a way out that was never taken says something
  static constexpr double kUnlikely =
      0.01;  ///< and it does when so many exits without it had a smaller chance than this
};

/// Of the time of one transition that both models have.
double time_difference(const Edge& a, const Edge& b, Form form);
/// Of the ways out of a state that both models left: the squared differences of the probabilities, summed.
double exit_difference(const Model& a, const Model& b, uint64_t state);

/// All summands that are above 0; their sum is the difference. `noise` may be null.
std::vector<Term> terms(const Model& a, const Model& b, Form form, const NoiseWeights* noise = nullptr);
double difference(const Model& a, const Model& b, Form form, const NoiseWeights* noise = nullptr);

/// ν over all pairs of models that have the transition. None is below a tenth of their median.
NoiseWeights noise_weights(const std::vector<Model>& models, Form form);

/// The transitions that contribute most, the largest first: the first is the text's characteristic transition.
std::vector<Term> characteristic_transitions(const Model& a, const Model& b, Form form, size_t at_most = 5,
                                             const NoiseWeights* noise = nullptr);

}  // namespace kintsugi::similarity
