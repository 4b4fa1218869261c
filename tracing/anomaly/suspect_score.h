/// Which of several flows, or processes, is unlike the others (Mirgorodskiy 2006, section 5.2.5).
#pragma once

#include <span>

#include "common/base/status.h"
#include "tracing/anomaly/profile.h"

namespace kintsugi::anomaly {

/// Each is compared with each: of more than these, the caller takes a part.
inline constexpr size_t kMostCompared = 4'000;

struct SuspectScore {
  size_t trial = 0;        ///< a place in `trials`
  double score = 0;        ///< the distance to the neighbour; infinite if there is none
  size_t neighbour = 0;    ///< whose distance that is: a place in `trials`, or in `normal`
  bool of_normal = false;  ///< the neighbour is one of `normal`
};

/// Scores of all `trials`, the greatest first (equals by their place). Without `normal`: the distance to the k-th nearest
/// other trial (5.4). With: to that one or to the nearest known-normal one, whichever is nearer (5.6); these may also be
/// of earlier faulty runs, whose symptoms are then not told again.
/// `k` = 0 stands for |trials| / 4, at least 1: fewer than k outliers that are like each other are found.
/// Errors: kLimitExceeded (kMostCompared trials or normal ones). O((u² + u n) c) for c components.
Result<std::vector<SuspectScore>> suspect_scores(std::span<const Profile> trials,
                                                 std::span<const Profile> normal = {}, size_t k = 0);

enum class Answer : uint8_t {
  kOutlier,
  kNoOutlier,  ///< all are much like one another, or all are affected
  kTooFew,     ///< too little to compare with
};

struct OutlierSettings {
  size_t least_trials = 4;    ///< fewer are judged only if there are as many known-normal ones
  double spreads = 5;         ///< median absolute deviations above the median score ...
  double least_share = 0.05;  ///< ... and this share of the largest distance that two such profiles can have
};

struct Ranking {
  Answer answer = Answer::kTooFew;
  std::vector<SuspectScore> scores;  ///< the greatest first
  size_t outliers = 0;               ///< the first so many of `scores` are beyond the threshold
  double usual = 0, threshold = 0;   ///< the median score, and what an outlier's is above
};

/// The text ranks and leaves it to a person where the outliers end; this says it: a score beyond the settings is one. Where
/// there are too few trials for a median, it is the known-normal profiles' distances to each other that say what is usual.
Result<Ranking> rank(std::span<const Profile> trials, std::span<const Profile> normal = {},
                     const OutlierSettings& settings = {});

}  // namespace kintsugi::anomaly
