#include "monitoring/similarity/population.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <thread>

#include <Eigen/Core>

#include "common/base/math.h"
#include "monitoring/similarity/medoids.h"

namespace kintsugi::similarity {
namespace {

constexpr size_t kLane = 8;
constexpr float kLeastDeviation = 0.1f;
constexpr float kOnlyInOne = 10;
/// Makes a step of a clamped line, and 1 of whatever is not 0.
constexpr float kSteep = 1e6f, kHuge = 1e30f;
/// Fewer members than this are compared each with each.
constexpr size_t kExact = 64;
/// Of more, so many are those that everybody is compared with, groups are made, and members say which grouping is best.
constexpr size_t kSamples = 8, kGroups = 4, kJudged = 256;

using Row = Eigen::Map<const Eigen::ArrayXf>;

}  // namespace

Population::Population(std::vector<Transition> edges, size_t expected_members)
    : edges_(std::move(edges)), width_(round_up(edges_.size(), kLane)) {
  for (auto* column : {&mean_, &deviation_, &share_, &state_share_})
    column->reserve(width_ * expected_members);
}

void Population::add(const Model& model) {
  const size_t begin = mean_.size();
  mean_.resize(begin + width_, 0);
  deviation_.resize(begin + width_, kLeastDeviation);
  share_.resize(begin + width_, 0);
  state_share_.resize(begin + width_, 0);
  const double count = std::max(model.count(), 1.0);
  size_t e = 0;
  uint64_t state = 0;
  float state_share = 0;
  bool first = true;
  auto edge = model.edges().begin();
  for (; e < edges_.size(); ++e) {
    if (first || edges_[e].from != state) {
      state = edges_[e].from;
      state_share = static_cast<float>(model.left(state) / count);
      first = false;
    }
    state_share_[begin + e] = state_share;
    while (edge != model.edges().end() && edge->transition < edges_[e])
      ++edge;
    if (edge == model.edges().end() || edge->transition != edges_[e]) continue;
    mean_[begin + e] = static_cast<float>(edge->mean);
    deviation_[begin + e] = std::max(kLeastDeviation, static_cast<float>(edge->deviation()));
    share_[begin + e] = static_cast<float>(edge->count / count);
  }
  counts_.push_back(model.count());
}

double Population::distance(size_t a, size_t b) const {
  const auto width = static_cast<Eigen::Index>(width_);
  const auto row = [&](const std::vector<float>& column, size_t member) {
    return Row(column.data() + member * width_, width);
  };
  const Row mean_a = row(mean_, a), mean_b = row(mean_, b), deviation_a = row(deviation_, a),
            deviation_b = row(deviation_, b);
  const Row share_a = row(share_, a), share_b = row(share_, b), state_a = row(state_share_, a),
            state_b = row(state_share_, b);
  const auto count_a = static_cast<float>(counts_[a]), count_b = static_cast<float>(counts_[b]);
  const float busiest = (share_a + share_b).maxCoeff();
  if (busiest <= 0) return 0;

  // The same formulas as time_difference() has, for all edges at once: C over A + B of the closed form, and α by tanh. Conditions are
  // factors of 0 and 1 made by clamping: then everything here is computed four edges at a time.
  thread_local Eigen::ArrayXf variance, apart, differs, mask, sum;
  const auto made = [](const Row& share) { return (share * kHuge).min(1.0f); };
  variance = deviation_a.square() + deviation_b.square();
  apart = mean_a - mean_b;
  differs = 1 - 2 * std::numbers::sqrt2_v<float> * deviation_a * deviation_b /
                    (variance.sqrt() * (deviation_a + deviation_b)) *
                    (-apart.square() / (2 * variance)).exp();
  constexpr float kHalfLn2 = std::numbers::ln2_v<float> / 2;
  apart += kHalfLn2 * (deviation_a.square() - deviation_b.square());  // of the logarithms of the linear means
  differs = differs.max(0.0f) * (1 + 4 * (apart * kHalfLn2).tanh().square());
  mask = ((share_a * count_a).min(share_b * count_b) - static_cast<float>(Support::kFew) + 0.5f) * kSteep;
  differs = differs.min(mask.max(1.0f));
  mask = made(share_a) * made(share_b);
  sum = differs * mask;
  // An edge that only one has says something when the other left the state often enough without it.
  const float unlikely = -static_cast<float>(std::log(Support::kUnlikely));
  const auto left_often = static_cast<float>(Support::kLeftOften);
  mask = (made(share_a) - made(share_b)).abs();
  if (mask.sum() > 0.5f)
    for (Eigen::Index e = 0; e < width; ++e) {
      if (mask(e) == 0) continue;
      const bool turned = share_a(e) <= 0;
      const float has = turned ? share_b(e) * count_b : share_a(e) * count_a;
      const float left = turned ? state_a(e) * count_a : state_b(e) * count_b;
      const float probability = turned ? share_b(e) / state_b(e) : share_a(e) / state_a(e);
      if (has < static_cast<float>(Support::kFew) || left < left_often) continue;
      if (probability >= 1 || -std::log1p(-probability) * left > unlikely) sum(e) = kOnlyInOne;
    }
  sum *= ((share_a + share_b) / busiest).sqrt();
  // Ways out of states: the squared differences of their probabilities.
  mask = (((state_a * count_a).min(state_b * count_b) - left_often + 0.5f) * kSteep).max(0.0f).min(1.0f);
  apart = share_a / state_a.max(1 / kHuge) - share_b / state_b.max(1 / kHuge);
  sum += mask * apart.square() * ((state_a + state_b) / busiest).min(1.0f).sqrt();
  return sum.sum();
}

size_t Population::bytes() const {
  return (mean_.capacity() + deviation_.capacity() + share_.capacity() + state_share_.capacity()) *
         sizeof(float);
}

std::vector<Transition> transitions_of(std::span<const Model> models) {
  std::vector<Transition> out, both;
  for (const Model& model : models) {
    both.clear();
    both.reserve(out.size() + model.edges().size());
    auto known = out.begin();
    for (const Edge& edge : model.edges()) {
      while (known != out.end() && *known < edge.transition)
        both.push_back(*known++);
      if (known != out.end() && *known == edge.transition) ++known;
      both.push_back(edge.transition);
    }
    both.insert(both.end(), known, out.end());
    std::swap(out, both);
  }
  return out;
}

std::vector<size_t> oddest(const Population& population, size_t at_most, uint64_t seed) {
  const size_t members = population.size();
  if (members == 0) return {};
  std::vector<size_t> ranking;
  if (members < kExact) {
    Distances all(members);
    for (size_t a = 0; a < members; ++a)
      for (size_t b = a + 1; b < members; ++b)
        all.set(a, b, population.distance(a, b));
    const DistanceOf distance = [&](size_t a, size_t b) { return all(a, b); };
    ranking = united_ranking(nearest_neighbour_outliers(members, members, distance, seed),
                             outliers(best_medoids(all, std::min<size_t>(8, members)), distance));
  } else {
    // The two analyses run beside each other.
    const DistanceOf distance = [&](size_t a, size_t b) { return population.distance(a, b); };
    std::vector<Suspect> nearest;
    std::thread other([&] { nearest = nearest_neighbour_outliers(members, kSamples, distance, seed); });
    const Medoids grouping =
        capek(members, distance, {.most_groups = kGroups, .judged = kJudged, .seed = seed});
    std::vector<Suspect> grouped = outliers(grouping, distance);
    other.join();
    ranking = united_ranking(nearest, grouped);
  }
  if (ranking.size() > at_most) ranking.resize(at_most);
  return ranking;
}

}  // namespace kintsugi::similarity
