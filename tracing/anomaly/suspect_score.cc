#include "tracing/anomaly/suspect_score.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/base/math.h"
#include "common/base/statistics.h"

namespace kintsugi::anomaly {
namespace {

/// Tells how far one profile is from many: it is spread out once, and then each distance takes a step for each component of the other one.
class Distances {
 public:
  Distances(std::span<const Profile> trials, std::span<const Profile> normal) {
    size_t places = 0;
    for (const std::span<const Profile> side : {trials, normal})
      for (const Profile& profile : side)
        for (const Component& one : profile)
          places = std::max(places, place_of(one) + 1);
    values_.resize(places);
  }

  /// The distances that follow are from this one, which stays as it is meanwhile.
  void from(const Profile& profile) {
    for (size_t place : taken_)
      values_[place] = 0;
    taken_.clear();
    for (const Component& one : profile) {
      values_[place_of(one)] = one.value;
      taken_.push_back(place_of(one));
    }
    length_ = length_of(profile);
  }

  /// distance(), but for what is lost by adding in another order.
  double to(const Profile& other) const {
    double shared = 0, apart = 0;
    for (const Component& one : other) {
      const double value = values_[place_of(one)];
      shared += value;
      apart += std::abs(one.value - value);
    }
    return std::max(0.0, length_ - shared) + apart;
  }

 private:
  static size_t place_of(const Component& one) {
    constexpr size_t kMeasures = 3;
    return size_t{one.path} * kMeasures + static_cast<size_t>(one.measure);
  }

  std::vector<double> values_;  ///< by path and measure; 0 where the profile has nothing
  std::vector<size_t> taken_;
  double length_ = 0;
};

struct Neighbour {
  double distance = std::numeric_limits<double>::infinity();
  size_t place = 0;
  bool operator<(const Neighbour& other) const {
    return std::tie(distance, place) < std::tie(other.distance, other.place);
  }
};

/// The places of at most kMostNeighbours of so many profiles, evenly.
std::vector<size_t> neighbours_of(size_t profiles) {
  std::vector<size_t> places;
  for (size_t i = 0, step = std::max<size_t>(1, divide_up(profiles, kMostNeighbours)); i < profiles;
       i += step)
    places.push_back(i);
  return places;
}

/// Distances to those at `places`, without that to itself.
std::vector<Neighbour> distances(const Distances& from, std::span<const Profile> others,
                                 std::span<const size_t> places, size_t itself) {
  std::vector<Neighbour> all;
  for (size_t place : places)
    if (place != itself) all.push_back({from.to(others[place]), place});
  return all;
}

Neighbour nearest(const Distances& from, std::span<const Profile> others, size_t itself = flow::kNone) {
  Neighbour best;
  for (size_t place = 0; place < others.size(); ++place)
    if (place != itself) best = std::min(best, Neighbour{from.to(others[place]), place});
  return best;
}

/// Of some of them, to the nearest of all others.
std::vector<double> distances_between(std::span<const Profile> normal) {
  std::vector<double> all;
  Distances from(normal, {});
  for (size_t place : neighbours_of(normal.size())) {
    from.from(normal[place]);
    all.push_back(nearest(from, normal, place).distance);
  }
  return all;
}

double median_deviation(std::span<const double> values, double median) {
  std::vector<double> deviations;
  for (double value : values)
    deviations.push_back(std::abs(value - median));
  return median_of(deviations);
}

}  // namespace

Result<std::vector<SuspectScore>> suspect_scores(std::span<const Profile> trials,
                                                 std::span<const Profile> normal, size_t k) {
  if (trials.size() > kMostCompared || normal.size() > kMostPairs / std::max<size_t>(1, trials.size()))
    return Status(
        Code::kLimitExceeded,
        fmt::format("{} flows or processes and {} that are known to be normal are too many to be compared",
                    trials.size(), normal.size()));
  const std::vector<size_t> places = neighbours_of(trials.size());
  if (k == 0) k = std::max<size_t>(1, places.size() / 4);
  std::vector<SuspectScore> scores;
  Distances from(trials, normal);
  for (size_t h = 0; h < trials.size(); ++h) {
    from.from(trials[h]);
    std::vector<Neighbour> others = distances(from, trials, places, h);
    Neighbour best;
    if (k <= others.size()) {
      std::nth_element(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(k - 1), others.end());
      best = others[k - 1];
    }
    const Neighbour known = nearest(from, normal);
    const bool of_normal = !normal.empty() && known.distance < best.distance;
    if (of_normal) best = known;
    scores.push_back({.trial = h, .score = best.distance, .neighbour = best.place, .of_normal = of_normal});
  }
  std::stable_sort(scores.begin(), scores.end(),
                   [](const SuspectScore& a, const SuspectScore& b) { return a.score > b.score; });
  return scores;
}

Result<Ranking> rank(std::span<const Profile> trials, std::span<const Profile> normal,
                     const OutlierSettings& settings) {
  Ranking ranking;
  KINTSUGI_ASSIGN(ranking.scores, suspect_scores(trials, normal));
  std::vector<double> usual;
  if (trials.size() >= settings.least_trials)
    for (const SuspectScore& score : ranking.scores)
      usual.push_back(score.score);
  else if (normal.size() >= settings.least_trials)
    usual = distances_between(normal);
  if (usual.empty() || trials.empty()) return ranking;
  ranking.usual = median_of(usual);
  ranking.threshold = std::max(ranking.usual + settings.spreads * median_deviation(usual, ranking.usual),
                               ranking.usual * settings.times);
  ranking.threshold = std::max(ranking.threshold, settings.least);
  for (const SuspectScore& score : ranking.scores) {
    const Profile& other = score.of_normal ? normal[score.neighbour] : trials[score.neighbour];
    const double largest = length_of(trials[score.trial]) + length_of(other);
    if (score.score <= ranking.threshold || score.score <= settings.least_share * largest) break;
    ++ranking.outliers;
  }
  ranking.answer = ranking.outliers > 0 ? Answer::kOutlier : Answer::kNoOutlier;
  return ranking;
}

double largest_gap(std::span<const Profile> profiles) {
  if (profiles.size() < 2) return 0;
  return std::ranges::max(distances_between(profiles));
}

}  // namespace kintsugi::anomaly
