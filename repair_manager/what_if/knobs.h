/// How coarsely each phase of a simulated loss is computed.
///
/// A phase is a quarter of the bytes that are to be rebuilt, in the order in which they are: not of the time or of the steps,
/// whose number depends on these very knobs. The last phase is the one in which errors show (docs/what_if.md).
#pragma once

#include <array>
#include <cstddef>

namespace kintsugi::what_if {

inline constexpr size_t kPhases = 4;

struct PhaseKnobs {
  /// So many repairs that would follow one another are simulated as one.
  double repairs_each = 1;
  /// Transfers that end within this time end together.
  double together_seconds = 100e-6;
};
/// As they are made, the simulation is exact.
using Knobs = std::array<PhaseKnobs, kPhases>;

}  // namespace kintsugi::what_if
