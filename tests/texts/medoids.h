/// Groups around representatives: partitioning around medoids, the choice of their number, and CAPEK's sampling (Laguna 2012, section 4.3.2; Gamblin
/// et al. 2010). Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/texts/clustering.h"

namespace kintsugi::similarity {

struct Medoids {
  std::vector<size_t> medoids;   ///< members that represent a group each
  std::vector<size_t> group;     ///< of each member, an index of `medoids`
  std::vector<double> distance;  ///< of each member to its medoid
  double total = 0;              ///< of all distances
  size_t size_of(size_t which) const;
};

/// Kaufman and Rousseeuw's build and swap. REQUIRES: 1 <= k <= distances.size().
Medoids around_medoids(const Distances& distances, size_t k);

/// The Bayesian information criterion of a grouping, larger is better, with one dimension for a dissimilarity. Minus infinity when every member
/// is a medoid, or infinity when all lie on their medoids.
double bic(const Medoids& grouping);

/// The best of 1 … `most` groups by bic().
Medoids best_medoids(const Distances& distances, size_t most);

/// Distance of the members with these numbers.
using DistanceOf = std::function<double(size_t, size_t)>;

struct CapekSettings {
  size_t most_groups = 8;
  size_t sample = 40, sample_each = 2;  ///< 40 + 2 k members are sampled for k groups
  size_t trials = 5;
  size_t judged = 512;  ///< at most so many members say which trial is best
  uint64_t seed = 1;
};

/// Groups many members by samples of them: each trial groups a sample, and the trial whose medoids are nearest to other samples wins. The number of groups is
/// chosen on a sample. Costs members · groups distances beside those of the samples; everything exact when there are no more members than a sample has.
Medoids capek(size_t members, const DistanceOf& distance, const CapekSettings& settings = {});

struct Suspect {
  size_t member;
  double score;
};

/// The text's outliers: distance to the medoid over the standard deviation in the group, largest first. 0 where the deviation is 0.
std::vector<Suspect> text_outliers(const Medoids& grouping);

/// Ours: a group of fewer than max(2, 5 %) members is itself suspect and judged by its distance to the nearest larger group's medoid; deviations are
/// robust, of the others in the group.
std::vector<Suspect> outliers(const Medoids& grouping, const DistanceOf& distance);

/// Distance to the nearest of the sampled members other than itself, largest first. With as many samples as members it is exact.
std::vector<Suspect> nearest_neighbour_outliers(size_t members, size_t samples, const DistanceOf& distance,
                                                uint64_t seed);

/// Both rankings as one, each member by the better of its ranks: two that are odd alike hide each other in one of them.
std::vector<size_t> united_ranking(const std::vector<Suspect>& a, const std::vector<Suspect>& b);

}  // namespace kintsugi::similarity
