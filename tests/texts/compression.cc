#include "tests/texts/compression.h"

#include <cmath>
#include <numbers>
#include <unordered_map>
#include <unordered_set>

namespace kintsugi::similarity {
namespace {

/// The variance of the times themselves when their logarithms (base 2) are normal.
double linear_variance(const Normal& log2_times) {
  const double mean = linear_mean(log2_times), deviation = log2_times.deviation * std::numbers::ln2;
  return mean * mean * std::expm1(std::min(deviation * deviation, 50.0));
}

}  // namespace

Normal in_sequence(const Normal& a, const Normal& b) {
  return {.mean = a.mean + b.mean, .deviation = std::hypot(a.deviation, b.deviation)};
}

std::set<uint64_t> loop_ends(std::span<const Transition> transitions) {
  std::map<uint64_t, std::vector<uint64_t>> next;
  std::set<uint64_t> entered;
  for (const Transition& t : transitions) {
    next[t.from].push_back(t.to);
    entered.insert(t.to);
  }
  std::vector<uint64_t> starts;
  for (const auto& [state, successors] : next)
    if (!entered.contains(state)) starts.push_back(state);
  for (const auto& [state, successors] : next)
    if (entered.contains(state)) starts.push_back(state);

  enum class Seen : uint8_t { kNot, kOpen, kDone };
  std::unordered_map<uint64_t, Seen> seen;
  std::set<uint64_t> out;
  struct Frame {
    uint64_t state;
    size_t successor;
  };
  for (uint64_t start : starts) {
    if (seen[start] != Seen::kNot) continue;
    std::vector<Frame> stack{{start, 0}};
    seen[start] = Seen::kOpen;
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const auto& successors = next[frame.state];
      if (frame.successor == successors.size()) {
        seen[frame.state] = Seen::kDone;
        stack.pop_back();
        continue;
      }
      const uint64_t to = successors[frame.successor++];
      if (seen[to] == Seen::kOpen) {
        out.insert(to);
        out.insert(frame.state);
      } else if (seen[to] == Seen::kNot) {
        seen[to] = Seen::kOpen;
        stack.push_back({to, 0});
      }
    }
  }
  return out;
}

Compression Compression::plan(std::span<const Model> models, const std::set<uint64_t>& keep) {
  std::map<Transition, size_t> support;
  for (const Model& model : models)
    for (const Edge& edge : model.edges())
      ++support[edge.transition];
  std::vector<Transition> all;
  std::unordered_map<uint64_t, size_t> out_degree, in_degree;
  std::unordered_map<uint64_t, Transition> only_exit;
  for (const auto& [transition, models_with_it] : support) {
    all.push_back(transition);
    ++out_degree[transition.from];
    ++in_degree[transition.to];
    only_exit[transition.from] = transition;
  }
  std::set<uint64_t> fixed = loop_ends(all);
  fixed.insert(keep.begin(), keep.end());
  const auto full = [&](const Transition& t) { return support.at(t) == models.size(); };
  // A state can vanish when there is one way in and one way out, both of which everybody goes.
  const auto passes = [&](uint64_t state) {
    return !fixed.contains(state) && out_degree[state] == 1 && in_degree[state] == 1 &&
           full(only_exit.at(state));
  };
  Compression out;
  for (const Transition& first : all) {
    if (!full(first) || passes(first.from)) continue;
    Chain chain{.members = {first}};
    while (passes(chain.members.back().to))
      chain.members.push_back(only_exit.at(chain.members.back().to));
    if (chain.members.size() < 2) continue;
    const Transition whole{first.from, chain.members.back().to};
    // Two ways between the same states would become one: they stay.
    if (support.contains(whole) || out.chains_.contains(whole)) continue;
    for (const Transition& member : chain.members)
      out.compressed_[member] = whole;
    out.chains_.emplace(whole, std::move(chain));
  }
  return out;
}

Compression::Parts Compression::parts(const Model& model, const Chain& chain,
                                      const std::function<bool(uint64_t)>& waits) const {
  Parts out;
  for (const Transition& member : chain.members) {
    const Edge* edge = model.find(member);
    if (edge == nullptr) continue;
    const Normal times{edge->mean, edge->deviation()};
    out.count = out.count == 0 ? edge->count : std::min(out.count, edge->count);
    (waits(member.from) ? out.wait_mean : out.compute_mean) += linear_mean(times);
    (waits(member.from) ? out.wait_variance : out.compute_variance) += linear_variance(times);
  }
  return out;
}

Model Compression::apply(const Model& model) const {
  std::vector<Edge> out;
  for (const Edge& edge : model.edges())
    if (!compressed_.contains(edge.transition)) out.push_back(edge);
  for (const auto& [whole, chain] : chains_) {
    const Parts sum = parts(model, chain, [](uint64_t) { return false; });
    if (sum.count == 0) continue;
    const Normal times = log2_normal(sum.compute_mean, sum.compute_variance);
    out.push_back({.transition = whole,
                   .count = sum.count,
                   .mean = times.mean,
                   .squares = times.deviation * times.deviation * sum.count});
  }
  return Model(std::move(out));
}

const Compression::Chain* Compression::chain(Transition compressed) const {
  const auto found = chains_.find(compressed);
  return found == chains_.end() ? nullptr : &found->second;
}

Normal log2_normal(double mean, double variance) {
  const double spread = std::log1p(variance / (mean * mean));
  return {.mean = (std::log(mean) - spread / 2) / std::numbers::ln2,
          .deviation = std::sqrt(spread) / std::numbers::ln2};
}

}  // namespace kintsugi::similarity
