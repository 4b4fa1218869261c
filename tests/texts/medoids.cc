#include "tests/texts/medoids.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "common/base/draws.h"
#include "common/base/statistics.h"

namespace kintsugi::similarity {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kBetter = 1e-12;  ///< of the total, relatively: less is no improvement
constexpr size_t kMostSwaps = 100;
constexpr size_t kLeastGroup = 2;
constexpr double kLeastGroupShare = 0.05;

void assign(Medoids& grouping, size_t members, const DistanceOf& distance) {
  grouping.group.assign(members, 0);
  grouping.distance.assign(members, kInfinite);
  grouping.total = 0;
  for (size_t i = 0; i < members; ++i) {
    for (size_t m = 0; m < grouping.medoids.size(); ++m)
      if (const double d = grouping.medoids[m] == i ? 0 : distance(i, grouping.medoids[m]);
          d < grouping.distance[i]) {
        grouping.distance[i] = d;
        grouping.group[i] = m;
      }
    grouping.total += grouping.distance[i];
  }
}

void sort(std::vector<Suspect>& suspects) {
  std::stable_sort(suspects.begin(), suspects.end(),
                   [](const Suspect& a, const Suspect& b) { return a.score > b.score; });
}

}  // namespace

size_t Medoids::size_of(size_t which) const {
  return static_cast<size_t>(std::count(group.begin(), group.end(), which));
}

Medoids around_medoids(const Distances& distances, size_t k) {
  const size_t n = distances.size();
  const auto distance = [&](size_t a, size_t b) { return distances(a, b); };
  Medoids out;
  std::vector<double> nearest(n, kInfinite);
  std::vector<bool> is_medoid(n, false);
  while (out.medoids.size() < k) {  // build: always the one that brings the total down most
    size_t best = n;
    double best_total = kInfinite;
    for (size_t candidate = 0; candidate < n; ++candidate) {
      if (is_medoid[candidate]) continue;
      double total = 0;
      for (size_t i = 0; i < n; ++i)
        total += std::min(nearest[i], distances(i, candidate));
      if (total < best_total) {
        best_total = total;
        best = candidate;
      }
    }
    out.medoids.push_back(best);
    is_medoid[best] = true;
    for (size_t i = 0; i < n; ++i)
      nearest[i] = std::min(nearest[i], distances(i, best));
  }
  assign(out, n, distance);
  for (size_t swap = 0; swap < kMostSwaps; ++swap) {
    // The second nearest medoid is where members go whose own is taken away.
    std::vector<double> second(n, kInfinite);
    for (size_t i = 0; i < n; ++i)
      for (size_t m = 0; m < k; ++m)
        if (m != out.group[i]) second[i] = std::min(second[i], distances(i, out.medoids[m]));
    double best_total = out.total * (1 - kBetter);
    size_t best_medoid = k, best_candidate = n;
    for (size_t candidate = 0; candidate < n; ++candidate) {
      if (is_medoid[candidate]) continue;
      std::vector<double> total(k, 0);
      double kept = 0;
      for (size_t i = 0; i < n; ++i) {
        const double d = distances(i, candidate), stays = std::min(out.distance[i], d);
        kept += stays;
        total[out.group[i]] += std::min(second[i], d) - stays;
      }
      for (size_t m = 0; m < k; ++m)
        if (kept + total[m] < best_total) {
          best_total = kept + total[m];
          best_medoid = m;
          best_candidate = candidate;
        }
    }
    if (best_medoid == k) break;
    is_medoid[out.medoids[best_medoid]] = false;
    is_medoid[best_candidate] = true;
    out.medoids[best_medoid] = best_candidate;
    assign(out, n, distance);
  }
  return out;
}

double bic(const Medoids& grouping) {
  const auto all = static_cast<double>(grouping.group.size()),
             k = static_cast<double>(grouping.medoids.size());
  constexpr double kDimensions = 1;
  if (all <= k) return -kInfinite;
  double squares = 0;
  for (double d : grouping.distance)
    squares += d * d;
  const double variance = squares / (all - k);
  if (variance <= 0) return kInfinite;
  double sum = 0;
  for (size_t m = 0; m < grouping.medoids.size(); ++m) {
    const auto size = static_cast<double>(grouping.size_of(m));
    if (size == 0) continue;
    sum += size * std::log(size / all) - size / 2 * std::log(2 * std::numbers::pi) -
           size * kDimensions / 2 * std::log(variance) - (size - 1) / 2;
  }
  return sum - (k - 1 + kDimensions * k + 1) / 2 * std::log(all);
}

Medoids best_medoids(const Distances& distances, size_t most) {
  Medoids best;
  double best_bic = -kInfinite;
  for (size_t k = 1; k <= std::min(most, distances.size()); ++k) {
    Medoids grouping = around_medoids(distances, k);
    const double value = bic(grouping);
    if (k > 1 && value <= best_bic) continue;
    best_bic = value;
    best = std::move(grouping);
  }
  return best;
}

Medoids capek(size_t members, const DistanceOf& distance, const CapekSettings& settings) {
  Draws draws(settings.seed);
  Medoids best;
  best.total = kInfinite;
  auto judges = draws.permutation(members);
  judges.resize(std::min(members, settings.judged));
  size_t groups = 0;  // chosen by the first trial
  for (size_t trial = 0; trial < settings.trials; ++trial) {
    auto sample = draws.permutation(members);
    const size_t most = groups == 0 ? settings.most_groups : groups;
    sample.resize(std::min(members, settings.sample + settings.sample_each * most));
    Distances between(sample.size());
    for (size_t a = 0; a < sample.size(); ++a)
      for (size_t b = a + 1; b < sample.size(); ++b)
        between.set(a, b, distance(sample[a], sample[b]));
    Medoids grouping =
        groups == 0 ? best_medoids(between, most) : around_medoids(between, std::min(groups, sample.size()));
    groups = grouping.medoids.size();
    for (size_t& medoid : grouping.medoids)
      medoid = sample[medoid];
    double total = 0;
    for (size_t i : judges) {
      double nearest = kInfinite;
      for (size_t medoid : grouping.medoids)
        nearest = std::min(nearest, medoid == i ? 0 : distance(i, medoid));
      total += nearest;
    }
    grouping.total = total;
    if (grouping.total < best.total) best = std::move(grouping);
    if (sample.size() == members) break;
  }
  assign(best, members, distance);
  return best;
}

std::vector<Suspect> text_outliers(const Medoids& grouping) {
  std::vector<Suspect> out;
  std::vector<std::vector<double>> distances(grouping.medoids.size());
  for (size_t i = 0; i < grouping.group.size(); ++i)
    distances[grouping.group[i]].push_back(grouping.distance[i]);
  for (size_t i = 0; i < grouping.group.size(); ++i) {
    double squares = 0;
    for (double d : distances[grouping.group[i]])
      squares += d * d;
    const double deviation = std::sqrt(squares / static_cast<double>(distances[grouping.group[i]].size()));
    out.push_back({i, deviation > 0 ? grouping.distance[i] / deviation : 0});
  }
  sort(out);
  return out;
}

std::vector<Suspect> outliers(const Medoids& grouping, const DistanceOf& distance) {
  const size_t members = grouping.group.size();
  const double least = std::max<double>(kLeastGroup, kLeastGroupShare * static_cast<double>(members));
  std::vector<std::vector<double>> distances(grouping.medoids.size());
  for (size_t i = 0; i < members; ++i)
    distances[grouping.group[i]].push_back(grouping.distance[i]);
  const auto small = [&](size_t group) { return static_cast<double>(distances[group].size()) < least; };
  std::vector<double> deviation;
  double smallest = kInfinite;
  for (auto& of_group : distances) {
    // Distances to a medoid are sizes: their median, scaled, is a deviation that a single far member does not move.
    deviation.push_back(1.4826 * median_of(of_group));
    if (deviation.back() > 0) smallest = std::min(smallest, deviation.back());
  }
  std::vector<Suspect> out;
  for (size_t i = 0; i < members; ++i) {
    size_t group = grouping.group[i];
    double away = grouping.distance[i];
    if (small(group)) {
      double nearest = kInfinite;
      for (size_t m = 0; m < grouping.medoids.size(); ++m)
        if (!small(m))
          if (const double d = distance(i, grouping.medoids[m]); d < nearest) {
            nearest = d;
            group = m;
          }
      if (nearest < kInfinite) away = nearest;
    }
    const double scale = deviation[group] > 0 ? deviation[group] : (smallest < kInfinite ? smallest : 1);
    out.push_back({i, away / scale});
  }
  sort(out);
  return out;
}

std::vector<Suspect> nearest_neighbour_outliers(size_t members, size_t samples, const DistanceOf& distance,
                                                uint64_t seed) {
  Draws draws(seed);
  auto sample = draws.permutation(members);
  sample.resize(std::min(members, samples));
  std::vector<Suspect> out;
  for (size_t i = 0; i < members; ++i) {
    double nearest = kInfinite;
    for (size_t s : sample)
      if (s != i) nearest = std::min(nearest, distance(i, s));
    out.push_back({i, nearest < kInfinite ? nearest : 0});
  }
  sort(out);
  return out;
}

std::vector<size_t> united_ranking(const std::vector<Suspect>& a, const std::vector<Suspect>& b) {
  struct Rank {
    size_t best = std::numeric_limits<size_t>::max(), sum = 0, member = 0;
  };
  std::vector<Rank> ranks(std::max(a.size(), b.size()));
  for (const auto* ranking : {&a, &b})
    for (size_t place = 0; place < ranking->size(); ++place) {
      Rank& rank = ranks[(*ranking)[place].member];
      rank.member = (*ranking)[place].member;
      rank.best = std::min(rank.best, place);
      rank.sum += place;
    }
  std::sort(ranks.begin(), ranks.end(), [](const Rank& x, const Rank& y) {
    return std::tie(x.best, x.sum, x.member) < std::tie(y.best, y.sum, y.member);
  });
  std::vector<size_t> out;
  for (const Rank& rank : ranks)
    out.push_back(rank.member);
  return out;
}

}  // namespace kintsugi::similarity
