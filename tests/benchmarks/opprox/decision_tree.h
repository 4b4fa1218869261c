/// A tree of questions "is this feature at most so much?" that tells the class of an input (Mitra 2016, section 5.3.4:
/// which control flow an execution will take). Grown by the Gini impurity (Breiman et al. 1984). Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kintsugi::opprox {

class DecisionTree {
 public:
  struct Limits {
    size_t depth = 4;
    size_t fewest = 5;  ///< rows of a leaf
  };
  /// REQUIRES: rows of one length, as many classes, at least one.
  static DecisionTree grow(std::span<const std::vector<double>> rows, std::span<const size_t> classes,
                           Limits limits);
  static DecisionTree grow(std::span<const std::vector<double>> rows, std::span<const size_t> classes) {
    return grow(rows, classes, Limits{});
  }

  size_t class_of(std::span<const double> row) const;
  size_t leaves() const;

 private:
  struct Node {
    size_t feature = 0;
    double at_most = 0;
    size_t yes = 0, no = 0;  // nodes; 0: it is a leaf
    size_t leaf_class = 0;
  };

  std::vector<Node> nodes_;
};

}  // namespace kintsugi::opprox
