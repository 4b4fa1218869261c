#include "tests/texts/population.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include <Eigen/Core>

#include "common/base/math.h"
#include "tests/texts/medoids.h"

namespace kintsugi::similarity {
namespace {

constexpr size_t kLane = 8;
constexpr float kLeastDeviation = 0.1f;
constexpr float kOnlyInOne = 10;
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
  const EdgeColumns of_a = columns(a), of_b = columns(b);
  const auto width = static_cast<Eigen::Index>(width_);
  const Row share_a(of_a.share, width), share_b(of_b.share, width);
  const float busiest = (share_a + share_b).maxCoeff();
  if (busiest <= 0) return 0;
  thread_local Eigen::ArrayXf terms;
  terms.resize(width);
  if (!edge_terms(of_a, of_b, busiest, width_, terms.data())) return terms.sum();

  // An edge that only one has says something when the other left the state often enough without it.
  const float unlikely = -static_cast<float>(std::log(Support::kUnlikely));
  for (Eigen::Index e = 0; e < width; ++e) {
    if ((share_a(e) > 0) == (share_b(e) > 0)) continue;
    const bool in_a = share_a(e) > 0;
    const EdgeColumns &has = in_a ? of_a : of_b, &lacks = in_a ? of_b : of_a;
    const float left = lacks.state_share[e] * lacks.count;
    if (has.share[e] * has.count < static_cast<float>(Support::kFew) ||
        left < static_cast<float>(Support::kLeftOften))
      continue;
    const float probability = has.share[e] / has.state_share[e];
    if (probability >= 1 || -std::log1p(-probability) * left > unlikely)
      terms(e) += kOnlyInOne * std::sqrt(has.share[e] / busiest);
  }
  return terms.sum();
}

EdgeColumns Population::columns(size_t member) const {
  const size_t begin = member * width_;
  return {.mean = mean_.data() + begin,
          .deviation = deviation_.data() + begin,
          .share = share_.data() + begin,
          .state_share = state_share_.data() + begin,
          .count = static_cast<float>(counts_[member])};
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
