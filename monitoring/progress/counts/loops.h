/// Loops of a control flow graph: natural ones from dominators, one for each entry, whatever the number of ways
/// through it.
#pragma once

#include <cstdint>
#include <vector>

#include "monitoring/progress/strong_components.h"

namespace kintsugi::progress {

struct Loop {
  uint32_t entry = 0;
  std::vector<uint32_t> nodes;  ///< ascending
  /// The sum of their counts is the number of iterations.
  std::vector<std::pair<uint32_t, uint32_t>> backedges;
  /// The loop has several entries, none of which dominates the others: counts are less certain.
  bool irreducible = false;

  bool contains(uint32_t node) const;
};

/// Outer loops before those inside of them.
std::vector<Loop> natural_loops(const Successors& graph, const std::vector<uint32_t>& entries);

/// Outer ones first: of nested loops the larger; the rest in the order of their entries.
void sort_by_nesting(std::vector<Loop>& loops);

}  // namespace kintsugi::progress
