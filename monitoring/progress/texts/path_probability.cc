#include "monitoring/progress/texts/path_probability.h"

#include <algorithm>
#include <functional>

#include <Eigen/SparseCore>
#include <Eigen/SparseLU>

namespace kintsugi::progress {

Dependence dependence(double forward, double backward, double epsilon) {
  const auto is_zero = [&](double p) { return p <= epsilon; };
  const auto is_one = [&](double p) { return p >= 1 - epsilon; };
  if (is_zero(forward) && is_zero(backward)) return kNoDependence;
  if (is_zero(forward)) return kFirstOnSecond;
  if (is_zero(backward)) return kSecondOnFirst;
  if (is_one(forward) == is_one(backward)) return kUndefined;
  return is_one(backward) ? kFirstOnSecond : kSecondOnFirst;
}

Dependence higher_decides(double forward, double backward) {
  if (forward == backward) return kNoDependence;
  return forward > backward ? kSecondOnFirst : kFirstOnSecond;
}

const std::vector<double>& HittingProbability::towards(uint32_t to) const {
  const auto found = known_.find(to);
  if (found != known_.end()) return found->second;
  const Successors& graph = model_.successors();
  const auto size = static_cast<uint32_t>(graph.size());
  // States that can reach `to` by transitions that were taken: there, I - Q is not singular.
  Successors predecessors(size);
  for (uint32_t from = 0; from < size; from++)
    for (size_t i = 0; i < graph[from].size(); i++)
      if (model_.probability(from, i) > 0) predecessors[graph[from][i]].push_back(from);
  std::vector<int> index(size, -1);
  std::vector<uint32_t> states, open{to};
  std::vector<bool> seen(size, false);
  seen[to] = true;
  while (!open.empty()) {
    const uint32_t node = open.back();
    open.pop_back();
    for (const uint32_t from : predecessors[node]) {
      if (seen[from]) continue;
      seen[from] = true;
      index[from] = static_cast<int>(states.size());
      states.push_back(from);
      open.push_back(from);
    }
  }
  std::vector<double> result(size, 0);
  result[to] = 1;
  if (!states.empty()) {
    const auto n = static_cast<int>(states.size());
    std::vector<Eigen::Triplet<double>> entries;
    Eigen::VectorXd right = Eigen::VectorXd::Zero(n);
    for (int row = 0; row < n; row++) {
      const uint32_t from = states[row];
      double diagonal = 1;
      for (size_t i = 0; i < graph[from].size(); i++) {
        const uint32_t next = graph[from][i];
        const double p = model_.probability(from, i);
        if (next == to)
          right[row] += p;
        else if (index[next] == row)
          diagonal -= p;
        else if (index[next] >= 0 && p > 0)
          entries.emplace_back(row, index[next], -p);
      }
      entries.emplace_back(row, row, diagonal);
    }
    Eigen::SparseMatrix<double> matrix(n, n);
    matrix.setFromTriplets(entries.begin(), entries.end());
    Eigen::SparseLU<Eigen::SparseMatrix<double>> solver;
    solver.compute(matrix);
    if (solver.info() == Eigen::Success) {
      const Eigen::VectorXd solution = solver.solve(right);
      for (int row = 0; row < n; row++)
        if (std::isfinite(solution[row])) result[states[row]] = std::clamp(solution[row], 0.0, 1.0);
    }
  }
  // Results are kept for few targets: where tasks stand.
  if (known_.size() >= 1'024) known_.clear();
  return known_.emplace(to, std::move(result)).first->second;
}

double HittingProbability::operator()(uint32_t from, uint32_t to) const {
  return from == to ? 1 : towards(to)[from];
}

double simple_path_probability(const Markov& model, uint32_t from, uint32_t to, size_t limit) {
  std::vector<bool> on_path(model.size(), false);
  size_t calls = 0;
  double sum = 0;
  const std::function<void(uint32_t, double)> walk = [&](uint32_t node, double probability) {
    if (++calls > limit) return;
    on_path[node] = true;
    const std::vector<uint32_t>& next = model.successors()[node];
    for (size_t i = 0; i < next.size(); i++) {
      const double p = probability * model.probability(node, i);
      if (p <= 0) continue;
      if (next[i] == to)
        sum += p;
      else if (!on_path[next[i]])
        walk(next[i], p);
    }
    on_path[node] = false;
  };
  walk(from, 1);
  return std::min(sum, 1.0);
}

}  // namespace kintsugi::progress
