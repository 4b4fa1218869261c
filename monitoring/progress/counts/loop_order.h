/// How tasks inside of loops compare: by iterations, from the outermost loop to the innermost (Mitra 2016, algorithm
/// 2).
#pragma once

#include <cstdint>
#include <vector>

#include "monitoring/progress/counts/loops.h"

namespace kintsugi::progress {

enum class Order : uint8_t {
  kNone,         ///< the two cannot be compared
  kFirstWaits,   ///< the first task is ahead, and depends on the second
  kSecondWaits,  ///< the second task is ahead, and depends on the first
  kWeakFirst,    ///< like kFirstWaits, but concluded from the hop count alone
  kWeakSecond,
};

/// Algorithm 2, of two tasks at nodes with counts of their own: the first loop around both whose iterations differ
/// decides, from the outermost in. When all are equal, our form asks who can reach whom without another iteration, and
/// then counts hops; the text's counts hops at once. `first_count(from, to)`: how often the first task took that edge.
class LoopOrder {
 public:
  /// `loops` as from natural_loops; the parameters outlive this.
  LoopOrder(const Successors& graph, const std::vector<Loop>& loops, bool text_form = false);

  template <class First, class Second>
  Order compare(uint32_t first, const First& first_count, uint32_t second, const Second& second_count) const {
    const std::vector<uint32_t> common = common_loops(first, second);
    for (const uint32_t loop : common) {
      double first_iterations = 0, second_iterations = 0;
      for (const auto& [from, to] : loops_[loop].backedges) {
        first_iterations += first_count(from, to);
        second_iterations += second_count(from, to);
      }
      if (first_iterations > second_iterations) return Order::kFirstWaits;
      if (first_iterations < second_iterations) return Order::kSecondWaits;
    }
    return common.empty() ? Order::kNone : same_iteration(common.front(), first, second);
  }
  /// Outermost first.
  std::vector<uint32_t> common_loops(uint32_t first, uint32_t second) const;

 private:
  Order same_iteration(uint32_t outermost, uint32_t first, uint32_t second) const;
  bool reaches(const Loop& loop, uint32_t from, uint32_t to) const;

  const Successors& graph_;
  const std::vector<Loop>& loops_;
  const bool text_form_;
  std::vector<std::vector<uint32_t>> loops_of_;  ///< index: node; its loops, outermost first
};

}  // namespace kintsugi::progress
