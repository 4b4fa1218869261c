/// Which of the windows is the odd one, and which transition it was (Laguna 2012, sections 3.3.4 and 3.4). Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "monitoring/similarity/model.h"
#include "tests/texts/clustering.h"

namespace kintsugi::similarity {

/// For each window the squared distances to all others, summed: the highest is the one with a fault that passed.
std::vector<double> deviation_scores(const Distances& windows);
/// The later one of the two neighbours that differ most: the first with a fault that stays. 0 when there are fewer than two.
size_t most_different_neighbour(const Distances& windows);

/// Two groups of numbers such that the squared distances to the groups' means are smallest.
struct TwoGroups {
  double boundary = 0;       ///< numbers above it are in the high group
  double low = 0, high = 0;  ///< the means
};
/// REQUIRES: not empty.
TwoGroups two_means(std::span<const double> values);
/// The first of the high group: the first window of a fault that stays, by the scores against windows without a fault.
size_t first_high(std::span<const double> scores);
/// The first of the low group.
size_t first_low(std::span<const double> values);

struct FaultyWindow {
  size_t window = 0;
  bool permanent = false;
};
/// Tries both: a fault is one that stays when at least three successive windows, the last among them, are in the high group of the scores. `scores` of
/// windows against a reference without a fault.
FaultyWindow faulty_window(std::span<const double> scores);

/// The group with the largest mean of squared differences of its members to themselves in the reference. REQUIRES: both of one length, not empty.
size_t faulty_group(std::span<const size_t> group_of, std::span<const double> difference_to_reference);

/// A time that a task took before a transition, at a moment.
struct Observed {
  size_t task = 0;
  Transition transition;
  double moment = 0, time = 0;
};
/// What times of each transition are usual: normal, without the largest and smallest hundredth of the samples.
std::map<Transition, Normal> usual_times(std::span<const Observed> samples);
/// The earliest of those whose probability is in the low one of two groups: where a fault that passed began. Nothing when none is known.
std::optional<Observed> improbable_transition(const std::map<Transition, Normal>& usual,
                                              std::span<const Observed> window);

/// A rise of θ, the spread of a transition's times over how much it varies anyway, at a moment.
struct Rise {
  double moment = 0, theta = 0;
};
/// Equation 3.5 as its explanation means it: an earlier one is better unless the later one is larger by more than the time between them. Not transitive, and dependent
/// on the unit of time: a baseline only.
bool better_by_text(const Rise& a, const Rise& b);
/// Ours: the largest log θ − moment / `window`. REQUIRES: not empty.
size_t first_large_rise(std::span<const Rise> rises, double window);

}  // namespace kintsugi::similarity
