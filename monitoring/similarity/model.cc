#include "monitoring/similarity/model.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kintsugi::similarity {

double Edge::deviation() const {
  return std::sqrt(variance());
}

Edge merged(const Edge& a, const Edge& b) {
  Edge out = a;
  out.count = a.count + b.count;
  if (out.count <= 0) return out;
  const double apart = b.mean - a.mean;
  out.mean = a.mean + apart * b.count / out.count;
  out.squares = a.squares + b.squares + apart * apart * a.count * b.count / out.count;
  return out;
}

Model::Model(std::vector<Edge> edges) : edges_(std::move(edges)) {
  std::sort(edges_.begin(), edges_.end(),
            [](const Edge& a, const Edge& b) { return a.transition < b.transition; });
  size_t kept = 0;
  for (size_t i = 0; i < edges_.size(); ++i)
    if (kept > 0 && edges_[kept - 1].transition == edges_[i].transition)
      edges_[kept - 1] = merged(edges_[kept - 1], edges_[i]);
    else
      edges_[kept++] = edges_[i];
  edges_.resize(kept);
  for (const Edge& edge : edges_) {
    const uint64_t from = edge.transition.from;
    if (left_.empty() || left_.back().state != from) left_.push_back({from, 0});
    left_.back().count += edge.count;
    count_ += edge.count;
  }
}

const Edge* Model::find(Transition transition) const {
  const auto found =
      std::lower_bound(edges_.begin(), edges_.end(), transition,
                       [](const Edge& edge, const Transition& t) { return edge.transition < t; });
  return found != edges_.end() && found->transition == transition ? &*found : nullptr;
}

double Model::left(uint64_t state) const {
  const auto found = std::lower_bound(left_.begin(), left_.end(), state,
                                      [](const Left& entry, uint64_t s) { return entry.state < s; });
  return found != left_.end() && found->state == state ? found->count : 0;
}

double Model::probability(const Edge& edge) const {
  const double all = left(edge.transition.from);
  return all > 0 ? edge.count / all : 0;
}

std::vector<uint64_t> Model::states() const {
  std::vector<uint64_t> out;
  for (const Edge& edge : edges_) {
    out.push_back(edge.transition.from);
    out.push_back(edge.transition.to);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

double linear_mean(const Normal& log2_times) {
  const double deviation = log2_times.deviation * std::numbers::ln2;
  return std::exp2(log2_times.mean) * std::exp(std::min(deviation * deviation / 2, 50.0));
}

}  // namespace kintsugi::similarity
