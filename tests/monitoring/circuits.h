/// Loops as the texts have them (Mitra 2016, section 2.3.4): elementary circuits merged by entry. Also what natural
/// loops are tested against.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "monitoring/progress/counts/loops.h"

namespace kintsugi::progress {

/// Elementary circuits (Johnson 1975); nullopt when there are more than `limit`.
std::optional<std::vector<std::vector<uint32_t>>> circuits(const Successors& graph, size_t limit);

/// Circuits merged by entry, that is the node of each that dominates the others (or, in irreducible ones, the one
/// nearest to the entries). nullopt as above.
std::optional<std::vector<Loop>> merged_circuits(const Successors& graph,
                                                 const std::vector<uint32_t>& entries, size_t limit);

/// Adds to every loop the nodes of those whose entry lies inside of it, until nothing changes. It makes natural loops
/// of merged circuits.
void close_under_nesting(std::vector<Loop>& loops);

}  // namespace kintsugi::progress
