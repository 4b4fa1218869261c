/// What one worker did in one window, as states with transitions between them: a semi-Markov model (Laguna 2012,
/// section 3.2). Pure values.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "monitoring/similarity/normal_distance.h"

namespace kintsugi::similarity {

/// From one state to the next. States are numbers that mean the same in every process.
struct Transition {
  uint64_t from = 0, to = 0;
  auto operator<=>(const Transition&) const = default;
};

/// How often a transition was made, and how long the state before it had lasted: mean and spread, in whatever unit the
/// model is of.
struct Edge {
  Transition transition;
  double count = 0;
  double mean = 0;
  double squares = 0;  ///< sum of squared differences from the mean ("M2")

  double variance() const { return count > 0 ? squares / count : 0; }
  double deviation() const;
};

/// The edge of both: counts, means and squares of all their values. REQUIRES: of one transition.
Edge merged(const Edge& a, const Edge& b);

/// Edges in the order of their transitions.
class Model {
 public:
  Model() = default;
  /// Edges in any order; those of one transition are merged.
  explicit Model(std::vector<Edge> edges);

  std::span<const Edge> edges() const { return edges_; }
  bool empty() const { return edges_.empty(); }
  /// Null when it was never made.
  const Edge* find(Transition transition) const;
  /// How often the state was left.
  double left(uint64_t state) const;
  /// The share of times that the state was left this way.
  double probability(const Edge& edge) const;
  double count() const { return count_; }
  /// The numbers of all states, ascending.
  std::vector<uint64_t> states() const;

 private:
  std::vector<Edge> edges_;
  /// How often a state was left.
  struct Left {
    uint64_t state;
    double count;
  };
  /// Ascending. A hash table would take three times as much memory, and there are thousands of models.
  std::vector<Left> left_;
  double count_ = 0;
};

/// The mean of the times themselves when their logarithms (base 2) are normal.
double linear_mean(const Normal& log2_times);

}  // namespace kintsugi::similarity
