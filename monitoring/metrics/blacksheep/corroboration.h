/// Whether the changes of a metric and those of a state agree. Pure.
#pragma once

#include <span>
#include <vector>

namespace kintsugi::blacksheep {

struct Corroboration {
  double true_positives = 0;   ///< both changed; with tolerance, each match counts by its weight
  size_t matches = 0;          ///< changes of the metric that a change of the state goes with
  size_t false_positives = 0;  ///< only the metric changed
  size_t false_negatives = 0;  ///< only the state changed
  size_t instants = 0;         ///< number of instants of the series

  /// Algorithm 3 (Tan 2008, section 6.1.4): +1, -2 and -1 for them.
  double sum() const {
    return true_positives - 2 * static_cast<double>(false_positives) - static_cast<double>(false_negatives);
  }
  /// The text's score: the mean over all instants, 0 of none. Whoever never reports a change has 0, too.
  double per_instant() const { return instants == 0 ? 0 : sum() / static_cast<double>(instants); }
  /// The mean over the changes; 0 of none.
  double normalised() const { return events() == 0 ? 0 : sum() / static_cast<double>(events()); }
  size_t events() const { return matches + false_positives + false_negatives; }

  Corroboration& operator+=(const Corroboration& other);
};

struct Match {
  size_t metric, state;  ///< indices into the changes
  double weight;         ///< 1 at the same instant
};
struct Matching {
  std::vector<Match> matches;
  std::vector<size_t> metric_alone, state_alone;  ///< indices into the changes, ascending
};
/// Pairs each change with one of the other series at most, the nearest ones first, up to 2 `sigma` instants apart; the
/// weight falls as a normal density of that deviation does. REQUIRES: both ascend; sigma > 0.
Matching match(std::span<const size_t> metric, std::span<const size_t> state, double sigma);

Corroboration corroborate(std::span<const size_t> metric, std::span<const size_t> state, size_t instants,
                          double sigma);

}  // namespace kintsugi::blacksheep
