/// Chooses the trees that carry a repair: of a shape that was asked for, or the cheapest ones.
#pragma once

#include "repair_manager/trees/cost_model.h"

namespace kintsugi::repair_manager {

struct TreeQuestion {
  std::span<const LinkRate> helpers;  ///< links of the servers that could help, in order of preference
  /// How many of the helpers each slice needs. Fewer than given only if any of them will do for any slice.
  size_t needed = 0;
  double root_down = 0;  ///< rate of the repair site's downlink
  TreeLoad load;
  Shape wanted = Shape::AUTO;
  /// The trees to use, whatever `wanted` says; none: they follow from the shape.
  TreeSet trees = {};
  uint64_t slice_bytes = 0;  ///< slice size of one sum; 0: the default
  bool read = false;         ///< a reader waits for the first bytes
};

struct TreeChoice {
  Choice choice;  ///< the choice, whose shape is never AUTO
  TreeSet trees;  ///< the trees, whose helpers are positions in TreeQuestion.helpers
};

/// The fixed shapes run over the first `needed` helpers. Trees for unequal links are considered when they
/// could be faster than a chain of these: where all links are alike, `weighted` is a chain, and says so.
TreeChoice choose_trees(const TreeQuestion& question, const LinkModel& link);

}  // namespace kintsugi::repair_manager
