/// Which of several flows, or processes, is unlike the others (Mirgorodskiy 2006, section 5.2.5).
#pragma once

#include <span>

#include "common/base/status.h"
#include "tracing/anomaly/profile.h"

namespace kintsugi::anomaly {

/// A trial's neighbours are sought among so many other trials: among all, or among an even part of them.
inline constexpr size_t kMostNeighbours = 1'000;
/// More trials are refused, and more known-normal profiles times trials.
inline constexpr size_t kMostCompared = 20'000, kMostPairs = 50'000'000;

struct SuspectScore {
  size_t trial = 0;        ///< a place in `trials`
  double score = 0;        ///< the distance to the neighbour; infinite if there is none
  size_t neighbour = 0;    ///< the neighbour at that distance: a place in `trials`, or in `normal`
  bool of_normal = false;  ///< the neighbour is one of `normal`
};

/// Scores of all `trials`, the greatest first (equals by their place). Without `normal`: the distance to the k-th nearest
/// other trial (5.4). With: to that one or to the nearest known-normal one, whichever is nearer (5.6); these may also be
/// of earlier faulty runs, whose symptoms are then not told again.
/// `k` = 0 stands for a quarter of the trials, at least 1: fewer than k outliers that are like each other are found.
/// Of more than kMostNeighbours trials only every second, third, ... is a neighbour, and k is a quarter of these.
/// Errors: kLimitExceeded (kMostCompared, kMostPairs). O(u (min(u, kMostNeighbours) + n) c) for c components.
Result<std::vector<SuspectScore>> suspect_scores(std::span<const Profile> trials,
                                                 std::span<const Profile> normal = {}, size_t k = 0);

enum class Answer : uint8_t {
  kOutlier,
  kNoOutlier,  ///< all are much like one another, or all are affected
  kTooFew,     ///< too little to compare with
};

struct OutlierSettings {
  size_t least_trials = 4;  ///< fewer are judged only if there are as many known-normal ones
  double spreads = 5;  ///< an outlier's score is so many median absolute deviations above the median score,
  double times = 2;    ///< so many times the median score: with many trials, some are far away by chance,
  double least_share = 0.05;  ///< this share of the largest distance that two such profiles can have,
  double least = 0;           ///< and this: what runs that were well tell
};

struct Ranking {
  Answer answer = Answer::kTooFew;
  std::vector<SuspectScore> scores;  ///< the greatest first
  size_t outliers = 0;               ///< the first so many of `scores` are beyond the threshold
  double usual = 0, threshold = 0;   ///< the median score, and what an outlier's is above, beside its share
};

/// The text ranks and leaves it to a person where the outliers end; this says it: a score beyond the settings is one. Where
/// there are too few trials for a median, it is the known-normal profiles' distances to each other that say what is usual.
Result<Ranking> rank(std::span<const Profile> trials, std::span<const Profile> normal = {},
                     const OutlierSettings& settings = {});

/// The farthest that one of them is from the nearest other one; 0 if there are fewer than two. Of more than kMostNeighbours, only
/// so many are looked at, evenly.
double largest_gap(std::span<const Profile> profiles);

}  // namespace kintsugi::anomaly
