/// Smaller models: chains of transitions that everybody makes one after the other become one (Laguna 2012, section 4.2.3). Pure.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "monitoring/similarity/model.h"

namespace kintsugi::similarity {

/// The time of two things one after the other, when they are independent: means and variances add.
Normal in_sequence(const Normal& a, const Normal& b);

/// Which chains of the models of one role become one edge each. Loops, branches and joins stay, and so do the states that are asked for.
class Compression {
 public:
  /// A chain and the distributions of its two kinds of time, of log2 times.
  struct Chain {
    /// In their order; the compressed edge goes from the first one's `from` to the last one's `to`.
    std::vector<Transition> members;
  };
  struct Parts {
    double count = 0;
    double wait_mean = 0, wait_variance = 0;  ///< of the time in states that wait, in the times' unit: P
    double compute_mean = 0, compute_variance = 0;  ///< of the others: Q
  };

  /// An edge is merged only when all models have it. `keep`: states that must stay, as those where tasks stand now.
  static Compression plan(std::span<const Model> models, const std::set<uint64_t>& keep = {});

  /// The smaller model. Edges that the plan does not know stay as they are.
  Model apply(const Model& model) const;
  /// What one compressed edge consists of, by kind of time.
  Parts parts(const Model& model, const Chain& chain, const std::function<bool(uint64_t)>& waits) const;
  /// Null when the transition is none of a chain.
  const Chain* chain(Transition compressed) const;
  const std::map<Transition, Chain>& chains() const { return chains_; }

 private:
  std::map<Transition, Chain> chains_;           ///< by first and last state
  std::map<Transition, Transition> compressed_;  ///< of each member, the chain it is in
};

/// States that loops are entered at, and those from where they go back: both ends of each edge that goes back in a depth-first walk. Every circuit holds one of each.
std::set<uint64_t> loop_ends(std::span<const Transition> transitions);

/// The inverse of linear_mean() with the variance: the normal distribution of logarithms (base 2) of times with this
/// mean and variance.
Normal log2_normal(double mean, double variance);

}  // namespace kintsugi::similarity
