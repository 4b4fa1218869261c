#include "monitoring/similarity/difference.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace kintsugi::similarity {
namespace {

constexpr double kOnlyInOne = 10;
/// Octaves below which the spread of times is no longer told apart.
constexpr double kLeastDeviation = 0.1;
/// The same for the text's seconds, where a spread of 0 would make a difference infinite.
constexpr double kLeastTextDeviation = 1e-9;

Normal normal_of(const Edge& edge, double least) {
  return {.mean = edge.mean, .deviation = std::max(edge.deviation(), least)};
}

/// The probability that a state was left this often without ever taking a way out that has this probability.
double chance_without(double left, double probability) {
  return probability >= 1 ? 0 : std::exp(left * std::log1p(-probability));
}

/// Calls `visit` with each edge of the two models, in the order of transitions: null for the model that has it not.
template <class Visit>
void for_each_edge(const Model& a, const Model& b, const Visit& visit) {
  auto x = a.edges().begin(), y = b.edges().begin();
  while (x != a.edges().end() || y != b.edges().end()) {
    const bool take_x = y == b.edges().end() || (x != a.edges().end() && x->transition <= y->transition);
    const bool take_y = x == a.edges().end() || (y != b.edges().end() && y->transition <= x->transition);
    visit(take_x ? &*x : nullptr, take_y ? &*y : nullptr);
    if (take_x) ++x;
    if (take_y) ++y;
  }
}

/// Two models that are compared term by term.
class Pair {
 public:
  Pair(const Model& a, const Model& b, Form form) : a_(a), b_(b), form_(form) {
    for_each_edge(a, b, [&](const Edge* x, const Edge* y) { busiest_ = std::max(busiest_, share_of(x, y)); });
  }

  Term of_edge(const Edge* x, const Edge* y) const {
    Term term{.transition = x != nullptr ? x->transition : y->transition};
    if (x != nullptr && y != nullptr) {
      term.magnitude = time_difference(*x, *y, form_);
    } else {
      term.only_one = true;
      const bool tells = x != nullptr ? lack_tells(a_, *x, b_) : lack_tells(b_, *y, a_);
      term.magnitude = form_ == Form::kText || tells ? kOnlyInOne : 0;
    }
    term.magnitude *= weight(share_of(x, y));
    return term;
  }

  Term of_state(uint64_t state, bool both_have_it) const {
    Term term{.state = true, .transition = {state, 0}};
    if (!both_have_it) {
      term.only_one = true;
      // In our form the edges into the state already account for it.
      term.magnitude = form_ == Form::kText ? kOnlyInOne : 0;
      return term;
    }
    const double least = std::min(a_.left(state), b_.left(state));
    if (least > 0 && (form_ == Form::kText || least >= Support::kLeftOften))
      term.magnitude = exit_difference(a_, b_, state) * weight(mean_share(a_.left(state), b_.left(state)));
    return term;
  }

 private:
  /// It is no coincidence that `lacks` never took the edge.
  static bool lack_tells(const Model& has, const Edge& edge, const Model& lacks) {
    const double left = lacks.left(edge.transition.from);
    return edge.count >= Support::kFew && left >= Support::kLeftOften &&
           chance_without(left, has.probability(edge)) < Support::kUnlikely;
  }
  double mean_share(double count_in_a, double count_in_b) const {
    return (count_in_a / std::max(a_.count(), 1.0) + count_in_b / std::max(b_.count(), 1.0)) / 2;
  }
  double share_of(const Edge* x, const Edge* y) const {
    return mean_share(x != nullptr ? x->count : 0, y != nullptr ? y->count : 0);
  }
  /// Edges that are used seldom count less, in ours.
  double weight(double share) const {
    return form_ == Form::kText || busiest_ <= 0 ? 1 : std::sqrt(std::min(1.0, share / busiest_));
  }

  const Model &a_, &b_;
  const Form form_;
  double busiest_ = 0;  ///< largest share of all transitions that one edge has
};

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

std::vector<Term> terms(const Model& a, const Model& b, Form form) {
  std::vector<Term> out;
  const auto add = [&](const Term& term) {
    if (term.magnitude > 0) out.push_back(term);
  };
  const Pair pair(a, b, form);
  for_each_edge(a, b, [&](const Edge* x, const Edge* y) { add(pair.of_edge(x, y)); });
  const auto states_a = a.states(), states_b = b.states();
  std::vector<uint64_t> either, both;
  std::ranges::set_union(states_a, states_b, std::back_inserter(either));
  std::ranges::set_intersection(states_a, states_b, std::back_inserter(both));
  for (const uint64_t state : either)
    add(pair.of_state(state, std::ranges::binary_search(both, state)));
  return out;
}

double difference(const Model& a, const Model& b, Form form) {
  double sum = 0;
  for (const Term& term : terms(a, b, form))
    sum += term.magnitude;
  return sum;
}

std::vector<Term> characteristic_transitions(const Model& a, const Model& b, Form form, size_t at_most) {
  std::vector<Term> out;
  for (const Term& term : terms(a, b, form))
    if (!term.state) out.push_back(term);
  std::sort(out.begin(), out.end(), [](const Term& x, const Term& y) { return x.magnitude > y.magnitude; });
  if (out.size() > at_most) out.resize(at_most);
  return out;
}

}  // namespace kintsugi::similarity
