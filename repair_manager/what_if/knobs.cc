#include "repair_manager/what_if/knobs.h"

#include <algorithm>

#include "repair_manager/what_if/fluid_network.h"

namespace kintsugi::what_if {

size_t WhatIfKnobs::phase_at(double progress) const {
  const auto number = static_cast<double>(phases.size());
  return static_cast<size_t>(std::clamp(progress * number, 0.0, number - 1));
}

double together_seconds(uint8_t level, double chunk_seconds) {
  constexpr std::array<double, kLevels> kPart{0, 0.002, 0.005, 0.01, 0.02, 0.05};
  return std::max(FluidNetwork::Settings{}.together_seconds, kPart[level] * chunk_seconds);
}

size_t most_full_links(uint8_t level) {
  constexpr std::array<size_t, kLevels> kLinks{0, 64, 32, 16, 8, 4};
  return level == 0 ? FluidNetwork::Settings{}.most_full_links : kLinks[level];
}

uint32_t repairs_in_bundle(uint8_t level) {
  constexpr std::array<uint32_t, kLevels> kRepairs{1, 2, 3, 4, 6, 8};
  return kRepairs[level];
}

}  // namespace kintsugi::what_if
