#include "monitoring/similarity/difference.h"

#include <algorithm>
#include <cmath>

#include "common/base/statistics.h"

namespace kintsugi::similarity {
namespace {

constexpr double kOnlyInOne = 10;
/// Octaves below which the spread of times is no longer told apart.
constexpr double kLeastDeviation = 0.1;
/// The same for the text's seconds, where a spread of 0 would make a difference infinite.
constexpr double kLeastTextDeviation = 1e-9;
constexpr double kLeastNoise = 0.1;

Normal normal_of(const Edge& edge, double least) {
  return {.mean = edge.mean, .deviation = std::max(edge.deviation(), least)};
}

/// That a state was left this often without a way out that has this probability, by chance.
double chance_without(double left, double probability) {
  return probability >= 1 ? 0 : std::exp(left * std::log1p(-probability));
}

bool has_state(const std::vector<uint64_t>& states, uint64_t state) {
  return std::binary_search(states.begin(), states.end(), state);
}

}  // namespace

double time_difference(const Edge& a, const Edge& b, Form form) {
  if (form == Form::kText) {
    const double apart = a.mean - b.mean, middle = (a.mean + b.mean) / 2;
    const double alpha = middle > 0 ? 1 + apart * apart / middle : 1;
    return squared_l2(normal_of(a, kLeastTextDeviation), normal_of(b, kLeastTextDeviation)) * alpha;
  }
  const Normal of_a = normal_of(a, kLeastDeviation), of_b = normal_of(b, kLeastDeviation);
  const double mean_a = linear_mean(of_a), mean_b = linear_mean(of_b);
  const double apart = (mean_a - mean_b) / ((mean_a + mean_b) / 2);
  const double whole = normalised_l2(of_a, of_b) * std::clamp(1 + apart * apart, 1.0, 5.0);
  return std::min(a.count, b.count) < Support::kFew ? std::min(whole, 1.0) : whole;
}

double exit_difference(const Model& a, const Model& b, uint64_t state) {
  double sum = 0;
  const auto add = [&](const Model& one, const Model& other, bool both) {
    for (const Edge& edge : one.edges()) {
      if (edge.transition.from != state) continue;
      const Edge* same = other.find(edge.transition);
      if (same != nullptr && !both) continue;
      const double apart = one.probability(edge) - (same != nullptr ? other.probability(*same) : 0);
      sum += apart * apart;
    }
  };
  add(a, b, true);
  add(b, a, false);
  return sum;
}

std::vector<Term> terms(const Model& a, const Model& b, Form form, const NoiseWeights* noise) {
  std::vector<Term> out;
  const auto states_a = a.states(), states_b = b.states();
  double busiest = 0;  // share of all transitions that the most used edge has
  const auto share_of = [&](const Edge* x, const Edge* y) {
    return ((x != nullptr ? x->count / std::max(a.count(), 1.0) : 0) +
            (y != nullptr ? y->count / std::max(b.count(), 1.0) : 0)) /
           2;
  };
  const auto each_edge = [&](const auto& visit) {
    auto x = a.edges().begin(), y = b.edges().begin();
    while (x != a.edges().end() || y != b.edges().end()) {
      const bool take_x = y == b.edges().end() || (x != a.edges().end() && x->transition <= y->transition);
      const bool take_y = x == a.edges().end() || (y != b.edges().end() && y->transition <= x->transition);
      visit(take_x ? &*x : nullptr, take_y ? &*y : nullptr);
      if (take_x) ++x;
      if (take_y) ++y;
    }
  };
  each_edge([&](const Edge* x, const Edge* y) { busiest = std::max(busiest, share_of(x, y)); });
  // Edges that are used seldom count less, in ours.
  const auto weight = [&](double share) {
    return form == Form::kText || busiest <= 0 ? 1 : std::sqrt(std::min(1.0, share / busiest));
  };

  each_edge([&](const Edge* x, const Edge* y) {
    Term term{.transition = x != nullptr ? x->transition : y->transition};
    if (x != nullptr && y != nullptr) {
      term.magnitude = time_difference(*x, *y, form);
    } else {
      term.only_one = true;
      const Model& has = x != nullptr ? a : b;
      const Model& lacks = x != nullptr ? b : a;
      const Edge& edge = x != nullptr ? *x : *y;
      const double left = lacks.left(edge.transition.from);
      const bool tells = edge.count >= Support::kFew && left >= Support::kLeftOften &&
                         chance_without(left, has.probability(edge)) < Support::kUnlikely;
      term.magnitude = form == Form::kText || tells ? kOnlyInOne : 0;
    }
    if (noise != nullptr)
      if (const auto known = noise->find(term.transition); known != noise->end() && known->second > 0)
        term.magnitude /= known->second;
    term.magnitude *= weight(share_of(x, y));
    if (term.magnitude > 0) out.push_back(term);
  });

  std::vector<uint64_t> states = states_a;
  states.insert(states.end(), states_b.begin(), states_b.end());
  std::sort(states.begin(), states.end());
  states.erase(std::unique(states.begin(), states.end()), states.end());
  for (uint64_t state : states) {
    Term term{.state = true, .transition = {state, 0}};
    if (!has_state(states_a, state) || !has_state(states_b, state)) {
      term.only_one = true;
      term.magnitude = form == Form::kText ? kOnlyInOne : 0;  // in ours the edges into it say that already
    } else if (a.left(state) > 0 && b.left(state) > 0 &&
               (form == Form::kText || std::min(a.left(state), b.left(state)) >= Support::kLeftOften)) {
      const double share =
          (a.left(state) / std::max(a.count(), 1.0) + b.left(state) / std::max(b.count(), 1.0)) / 2;
      term.magnitude = exit_difference(a, b, state) * weight(share);
    }
    if (term.magnitude > 0) out.push_back(term);
  }
  return out;
}

double difference(const Model& a, const Model& b, Form form, const NoiseWeights* noise) {
  double sum = 0;
  for (const Term& term : terms(a, b, form, noise))
    sum += term.magnitude;
  return sum;
}

NoiseWeights noise_weights(const std::vector<Model>& models, Form form) {
  struct Sum {
    double squares = 0, pairs = 0;
  };
  std::map<Transition, Sum> sums;
  for (size_t i = 0; i < models.size(); ++i)
    for (size_t j = i + 1; j < models.size(); ++j)
      for (const Edge& edge : models[i].edges())
        if (const Edge* same = models[j].find(edge.transition)) {
          const double apart = time_difference(edge, *same, form);
          Sum& sum = sums[edge.transition];
          sum.squares += apart * apart;
          sum.pairs += 1;
        }
  NoiseWeights out;
  std::vector<double> all;
  for (const auto& [transition, sum] : sums) {
    out[transition] = std::sqrt(sum.squares / sum.pairs);
    all.push_back(out[transition]);
  }
  const double least = kLeastNoise * median_of(all);
  for (auto& [transition, weight] : out)
    weight = std::max(weight, least > 0 ? least : 1);
  return out;
}

std::vector<Term> characteristic_transitions(const Model& a, const Model& b, Form form, size_t at_most,
                                             const NoiseWeights* noise) {
  std::vector<Term> out;
  for (const Term& term : terms(a, b, form, noise))
    if (!term.state) out.push_back(term);
  std::sort(out.begin(), out.end(), [](const Term& x, const Term& y) { return x.magnitude > y.magnitude; });
  if (out.size() > at_most) out.resize(at_most);
  return out;
}

}  // namespace kintsugi::similarity
