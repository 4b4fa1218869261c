/// Loops of a control flow graph, and how tasks inside of them compare: by iterations, from the outermost loop to the innermost.
///
/// Ours are natural loops from dominators, closed under nesting: one for each entry, whatever the number of ways through
/// it. The text's (Mitra 2016, section 2.3.4) are elementary circuits merged by entry: the baseline, and the oracle of tests.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "monitoring/progress/strong_components.h"

namespace kintsugi::progress {

struct Loop {
  uint32_t entry = 0;
  std::vector<uint32_t> nodes;                           ///< in ascending order
  std::vector<std::pair<uint32_t, uint32_t>> backedges;  ///< whose counts together are its iterations
  bool irreducible = false;  ///< several entries, none of which dominates the others: counts are less certain

  bool contains(uint32_t node) const;
};

/// Immediate dominators from a virtual root with edges to `entries` (to every node that cannot be reached from them, too). A node's own
/// number: the virtual root dominates it alone.
std::vector<uint32_t> dominators(const Successors& graph, const std::vector<uint32_t>& entries);

/// Outer loops before those inside of them.
std::vector<Loop> natural_loops(const Successors& graph, const std::vector<uint32_t>& entries);

/// Elementary circuits (Johnson 1975); nullopt when there are more than `limit`.
std::optional<std::vector<std::vector<uint32_t>>> circuits(const Successors& graph, size_t limit);

/// The text's form: circuits merged by entry, that is the node of each that dominates the others (or, in irreducible ones, the one nearest to
/// the entries). nullopt as above.
std::optional<std::vector<Loop>> merged_circuits(const Successors& graph,
                                                 const std::vector<uint32_t>& entries, size_t limit);

/// Adds to every loop the nodes of those whose entry lies inside of it, until nothing changes.
void close_under_nesting(std::vector<Loop>& loops);

enum class Order : uint8_t {
  kNone,         ///< they cannot be compared
  kFirstWaits,   ///< the first is ahead, and depends on the second
  kSecondWaits,  ///< the other way round
  kWeakFirst,    ///< as kFirstWaits, by hop count alone
  kWeakSecond,
};

/// Algorithm 2, of two tasks at nodes with counts of their own: the first loop around both whose iterations differ decides, from the outermost in.
/// When all are equal, our form asks who can reach whom without another iteration, and then counts hops; the text's counts hops at once.
/// `first_count(from, to)`: how often the first task took that edge.
class LoopOrder {
 public:
  /// `loops` as from natural_loops or merged_circuits; the parameters outlive this.
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
  const std::vector<uint32_t>& loops_of(uint32_t node) const { return loops_of_[node]; }

 private:
  Order same_iteration(uint32_t outermost, uint32_t first, uint32_t second) const;
  bool reaches(const Loop& loop, uint32_t from, uint32_t to) const;

  const Successors& graph_;
  const std::vector<Loop>& loops_;
  const bool text_form_;
  std::vector<std::vector<uint32_t>> loops_of_;  ///< by node, outermost first
};

}  // namespace kintsugi::progress
