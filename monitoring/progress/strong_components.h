/// Strongly connected components of directed graphs (Tarjan 1972), without recursion.
#pragma once

#include <cstdint>
#include <vector>

namespace kintsugi::progress {

/// successors[v] are the vertices that v has edges to.
using Successors = std::vector<std::vector<uint32_t>>;

struct Components {
  /// Index: vertex. A component's number is larger than those of the components that it reaches.
  std::vector<uint32_t> of;
  uint32_t count = 0;

  std::vector<std::vector<uint32_t>> members() const;
};

Components strong_components(const Successors& successors);

}  // namespace kintsugi::progress
