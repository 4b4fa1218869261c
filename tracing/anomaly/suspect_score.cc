#include "tracing/anomaly/suspect_score.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/base/statistics.h"

namespace kintsugi::anomaly {
namespace {

struct Neighbour {
  double distance = std::numeric_limits<double>::infinity();
  size_t place = 0;
  bool operator<(const Neighbour& other) const {
    return std::tie(distance, place) < std::tie(other.distance, other.place);
  }
};

Neighbour nearest(const Profile& profile, std::span<const Profile> others, size_t except = flow::kNone) {
  Neighbour best;
  for (size_t i = 0; i < others.size(); ++i)
    if (i != except) best = std::min(best, Neighbour{distance(profile, others[i]), i});
  return best;
}

/// Distances of all pairs, once each: u (u - 1) / 2 of them.
class Distances {
 public:
  explicit Distances(std::span<const Profile> trials) {
    for (size_t i = 1; i < trials.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        values_.push_back(distance(trials[i], trials[j]));
  }
  double of(size_t a, size_t b) const {
    const size_t i = std::max(a, b), j = std::min(a, b);
    return values_[i * (i - 1) / 2 + j];
  }

 private:
  std::vector<double> values_;
};

double median_deviation(std::span<const double> values, double median) {
  std::vector<double> deviations;
  for (double value : values)
    deviations.push_back(std::abs(value - median));
  return median_of(deviations);
}

}  // namespace

Result<std::vector<SuspectScore>> suspect_scores(std::span<const Profile> trials,
                                                 std::span<const Profile> normal, size_t k) {
  if (trials.size() > kMostCompared || normal.size() > kMostCompared)
    return Status(Code::kLimitExceeded,
                  fmt::format("{} are compared with {}, at most {} can be", trials.size(),
                              std::max(trials.size(), normal.size()), kMostCompared));
  if (k == 0) k = std::max<size_t>(1, trials.size() / 4);
  const Distances distances(trials);
  std::vector<SuspectScore> scores;
  std::vector<Neighbour> others;
  for (size_t h = 0; h < trials.size(); ++h) {
    others.clear();
    for (size_t g = 0; g < trials.size(); ++g)
      if (g != h) others.push_back({distances.of(h, g), g});
    Neighbour best;
    if (k <= others.size()) {
      std::nth_element(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(k - 1), others.end());
      best = others[k - 1];
    }
    const Neighbour known = nearest(trials[h], normal);
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
    for (size_t i = 0; i < normal.size(); ++i)
      usual.push_back(nearest(normal[i], normal, i).distance);
  if (usual.empty() || trials.empty()) return ranking;
  ranking.usual = median_of(usual);
  ranking.threshold = ranking.usual + settings.spreads * median_deviation(usual, ranking.usual);
  for (const SuspectScore& score : ranking.scores) {
    const Profile& other = score.of_normal ? normal[score.neighbour] : trials[score.neighbour];
    const double largest = length_of(trials[score.trial]) + length_of(other);
    if (score.score <= ranking.threshold || score.score <= settings.least_share * largest) break;
    ++ranking.outliers;
  }
  ranking.answer = ranking.outliers > 0 ? Answer::kOutlier : Answer::kNoOutlier;
  return ranking;
}

}  // namespace kintsugi::anomaly
