#include "tests/benchmarks/opprox/decision_tree.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "common/base/assert.h"

namespace kintsugi::opprox {
namespace {

using Indexes = std::vector<size_t>;

/// How many rows there are of each class.
class Tally {
 public:
  explicit Tally(size_t classes) : counts_(classes) {}
  void add(size_t of_class) {
    ++counts_[of_class];
    ++all_;
  }
  void take(size_t of_class) {
    --counts_[of_class];
    --all_;
  }
  /// Gini impurity times the number of rows.
  double impurity() const {
    double squares = 0;
    for (const size_t count : counts_)
      squares += static_cast<double>(count) * static_cast<double>(count);
    return all_ == 0 ? 0 : static_cast<double>(all_) - squares / static_cast<double>(all_);
  }
  size_t most() const { return static_cast<size_t>(std::ranges::max_element(counts_) - counts_.begin()); }

 private:
  std::vector<size_t> counts_;
  size_t all_ = 0;
};

struct Cut {
  size_t feature;
  double at_most, impurity;
};

struct Grower {
  std::span<const std::vector<double>> rows;
  std::span<const size_t> classes;
  size_t number;
  size_t fewest;

  Tally tally(const Indexes& some) const {
    Tally tally(number);
    for (const size_t i : some)
      tally.add(classes[i]);
    return tally;
  }

  /// The cut after which both sides together are purest.
  std::optional<Cut> best_cut(Indexes some) const {
    std::optional<Cut> best;
    for (size_t feature = 0; feature < rows.front().size(); ++feature) {
      std::ranges::stable_sort(some, {}, [&](size_t i) { return rows[i][feature]; });
      Tally below(number), above = tally(some);
      for (size_t i = 0; i + 1 < some.size(); ++i) {
        below.add(classes[some[i]]);
        above.take(classes[some[i]]);
        const double here = rows[some[i]][feature], next = rows[some[i + 1]][feature];
        if (here == next || i + 1 < fewest || some.size() - i - 1 < fewest) continue;
        const double impurity = below.impurity() + above.impurity();
        if (!best || impurity < best->impurity - 1e-12) best = Cut{feature, (here + next) / 2, impurity};
      }
    }
    return best;
  }
};

}  // namespace

DecisionTree DecisionTree::grow(std::span<const std::vector<double>> rows, std::span<const size_t> classes,
                                Limits limits) {
  KINTSUGI_ASSERT(!rows.empty() && rows.size() == classes.size());
  const Grower grower{rows, classes, *std::ranges::max_element(classes) + 1, limits.fewest};
  struct Todo {
    size_t node, depth;
    Indexes rows;
  };
  DecisionTree tree;
  tree.nodes_.emplace_back();
  std::vector<Todo> todo{{0, 0, Indexes(rows.size())}};
  std::iota(todo.front().rows.begin(), todo.front().rows.end(), 0);
  while (!todo.empty()) {
    const Todo now = std::move(todo.back());
    todo.pop_back();
    const Tally tally = grower.tally(now.rows);
    tree.nodes_[now.node].leaf_class = tally.most();
    if (now.depth >= limits.depth || tally.impurity() <= 0) continue;
    const std::optional<Cut> cut = grower.best_cut(now.rows);
    if (!cut || cut->impurity >= tally.impurity() - 1e-12) continue;
    Todo yes{tree.nodes_.size(), now.depth + 1, {}}, no{tree.nodes_.size() + 1, now.depth + 1, {}};
    for (const size_t i : now.rows)
      (rows[i][cut->feature] <= cut->at_most ? yes : no).rows.push_back(i);
    Node& node = tree.nodes_[now.node];
    node.feature = cut->feature;
    node.at_most = cut->at_most;
    node.yes = yes.node;
    node.no = no.node;
    tree.nodes_.resize(tree.nodes_.size() + 2);
    todo.push_back(std::move(yes));
    todo.push_back(std::move(no));
  }
  return tree;
}

size_t DecisionTree::class_of(std::span<const double> row) const {
  size_t at = 0;
  while (nodes_[at].yes != 0)
    at = row[nodes_[at].feature] <= nodes_[at].at_most ? nodes_[at].yes : nodes_[at].no;
  return nodes_[at].leaf_class;
}

size_t DecisionTree::leaves() const {
  return static_cast<size_t>(std::ranges::count_if(nodes_, [](const Node& node) { return node.yes == 0; }));
}

}  // namespace kintsugi::opprox
