/// How tasks inside of loops compare: by iterations, from the outermost loop to the innermost (Mitra 2016, algorithm
/// 2).
#pragma once

#include <cstdint>
#include <vector>

#include "monitoring/progress/counts/loops.h"

namespace kintsugi::progress {

/// What two tasks have to do with each other: the one that is ahead waits for the one that is behind. These are bits, so
/// that the views of several tasks are united by `|`: 1 | 2 = 3.
enum Dependence : uint8_t { kNoDependence = 0, kFirstOnSecond = 1, kSecondOnFirst = 2, kUndefined = 3 };

/// Algorithm 2, of two tasks at nodes with counts of their own: the first loop around both whose iterations differ
/// decides, from the outermost in. When all are equal, our form asks who can reach whom without another iteration, and
/// then counts hops; the text's counts hops at once. `first_count(from, to)`: how often the first task took that edge.
class LoopOrder {
 public:
  /// `loops` as from natural_loops; the parameters outlive this.
  LoopOrder(const Successors& graph, const std::vector<Loop>& loops, bool text_form = false);

  template <class First, class Second>
  Dependence compare(uint32_t first, const First& first_count, uint32_t second,
                     const Second& second_count) const {
    const std::vector<uint32_t> common = common_loops(first, second);
    for (const uint32_t loop : common) {
      double first_iterations = 0, second_iterations = 0;
      for (const auto& [from, to] : loops_[loop].backedges) {
        first_iterations += first_count(from, to);
        second_iterations += second_count(from, to);
      }
      if (first_iterations > second_iterations) return kFirstOnSecond;
      if (first_iterations < second_iterations) return kSecondOnFirst;
    }
    return common.empty() ? kNoDependence : same_iteration(common.front(), first, second);
  }
  /// Outermost first.
  std::vector<uint32_t> common_loops(uint32_t first, uint32_t second) const;

 private:
  Dependence same_iteration(uint32_t outermost, uint32_t first, uint32_t second) const;
  bool reaches(const Loop& loop, uint32_t from, uint32_t to) const;

  const Successors& graph_;
  const std::vector<Loop>& loops_;
  const bool text_form_;
  std::vector<std::vector<uint32_t>> loops_of_;  ///< index: node; its loops, outermost first
};

}  // namespace kintsugi::progress
