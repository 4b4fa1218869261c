/// Loops of a control flow graph.
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

}  // namespace kintsugi::progress
