/// How coarsely a repair is simulated, phase by phase: the approximable blocks of Mitra 2016, chapter 5, in a forecast.
///
/// ```
/// block      what is saved                                          levels 1 to 5
/// kRates     flows that end within a time end together              0.2, 0.5, 1, 2, 5 % of a chunk's time on a link
/// kFilling   when so many links are full, the other flows get       64, 32, 16, 8, 4 links
///            their rates in one pass
/// kBundle    one repair stands for several that follow it           2, 3, 4, 6, 8 repairs
/// ```
///
/// Level 0 is exact: with it the repair manager makes the schedule that it makes in production. Phases have equal parts
/// of the bytes that are rebuilt, since nobody knows beforehand how many turns a repair takes. For kBundle, phases have
/// equal parts of the queue, in its order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kintsugi::what_if {

enum class Block : uint8_t { kRates, kFilling, kBundle };
inline constexpr size_t kBlocks = 3, kLevels = 6;

/// Index: block.
using Levels = std::array<uint8_t, kBlocks>;

struct WhatIfKnobs {
  std::vector<Levels> phases;  ///< none: all of it is exact

  /// The phase after this share of the work, in [0, 1). REQUIRES: there are phases.
  size_t phase_at(double progress) const;
  uint8_t level(size_t phase, Block block) const { return phases[phase][static_cast<size_t>(block)]; }
};

/// `chunk_seconds`: the time that a chunk takes on a typical link that carries nothing else.
double together_seconds(uint8_t level, double chunk_seconds);
size_t most_full_links(uint8_t level);
uint32_t repairs_in_bundle(uint8_t level);

}  // namespace kintsugi::what_if
