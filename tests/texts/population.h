/// Thousands of workers of one role, laid out so that two of them are compared in a few microseconds: our form of difference() over arrays.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "monitoring/similarity/difference.h"
#include "tests/texts/edge_terms.h"

namespace kintsugi::similarity {

/// 16 bytes an edge and worker. Not thread-safe while workers are added; distance() may be called by several threads after that.
class Population {
 public:
  /// `edges` that are compared, ascending, without duplicates; what models have beside them is left out.
  Population(std::vector<Transition> edges, size_t expected_members);
  void add(const Model& model);

  size_t size() const { return counts_.size(); }
  std::span<const Transition> edges() const { return edges_; }
  /// As difference() in our form without noise weights, in single precision.
  double distance(size_t a, size_t b) const;
  size_t bytes() const;

 private:
  EdgeColumns columns(size_t member) const;

  std::vector<Transition> edges_;
  size_t width_;  ///< edges, rounded up to whole vectors
  std::vector<float> mean_, deviation_, share_,
      state_share_;  ///< by member, then by edge; a share of 0: the edge was never made
  std::vector<double> counts_;
};

/// All transitions of the models, ascending.
std::vector<Transition> transitions_of(std::span<const Model> models);

/// The `at_most` oddest members, by both rankings of medoids.h united. Exact below 64 members.
std::vector<size_t> oddest(const Population& population, size_t at_most, uint64_t seed);

}  // namespace kintsugi::similarity
