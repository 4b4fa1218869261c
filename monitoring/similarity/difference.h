/// How much two models differ, and where: the text's form and ours (Laguna 2012, section 3.3.1, equations 3.1 to 3.4).
/// Pure.
#pragma once

#include <vector>

#include "monitoring/similarity/model.h"

namespace kintsugi::similarity {

enum class Form : uint8_t {
  /// As in the thesis: models of times in seconds; squared L2 distance of the densities times α; 10 for what only one
  /// model has.
  kText,
  /// Ours: models of log2 of times, so independent of units; weighted by how often an edge is used; a rare path is no
  /// difference.
  kOurs,
};

/// One summand of a difference.
struct Term {
  /// If true, the ways out of the state `transition.from` differ; if false, the time of the transition.
  bool state = false;
  Transition transition;
  double magnitude = 0;
  bool only_one = false;  ///< only one of the models has it
};

/// What counts as too little to compare, in ours.
struct Support {
  static constexpr double kFew = 5;  ///< an edge with fewer executions differs by at most 1
  /// How often a state must have been left before a way out that was never taken means something.
  static constexpr double kLeftOften = 20;
  /// Only if that many exits without it were less likely than this, its absence means something.
  static constexpr double kUnlikely = 0.01;
};

/// The difference of the times of one transition that both models have.
double time_difference(const Edge& a, const Edge& b, Form form);
/// The difference of the ways out of a state that both models left: the squared differences of the probabilities,
/// summed.
double exit_difference(const Model& a, const Model& b, uint64_t state);

/// All summands that are above 0; their sum is the difference.
std::vector<Term> terms(const Model& a, const Model& b, Form form);
double difference(const Model& a, const Model& b, Form form);

/// The transitions that contribute most, the largest first: the first is the text's characteristic transition.
std::vector<Term> characteristic_transitions(const Model& a, const Model& b, Form form, size_t at_most = 5);

}  // namespace kintsugi::similarity
