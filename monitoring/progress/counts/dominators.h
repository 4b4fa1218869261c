/// Which nodes of a control flow graph lie on every way to a node.
#pragma once

#include <cstdint>
#include <vector>

#include "monitoring/progress/strong_components.h"

namespace kintsugi::progress {

Successors reversed(const Successors& graph);

/// Depth first from `entries`, then from all that is left, in their order: the last node comes first.
struct DepthFirst {
  std::vector<uint32_t> order;     ///< nodes in reverse postorder
  std::vector<uint32_t> position;  ///< index: node; its position in `order`
  std::vector<bool> is_root;       ///< whether the node has an edge from the virtual root

  DepthFirst(const Successors& graph, const std::vector<uint32_t>& entries);
};

/// Immediate dominators from a virtual root with edges to `entries` (to every node that cannot be reached from them,
/// too). A node's own number: the virtual root dominates it alone.
std::vector<uint32_t> dominators(const Successors& graph, const std::vector<uint32_t>& entries);

/// `dominator` is as dominators() has it.
bool dominates(const std::vector<uint32_t>& dominator, uint32_t above, uint32_t node);

}  // namespace kintsugi::progress
