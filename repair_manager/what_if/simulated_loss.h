/// Runs a repair manager in virtual time until all that a state lacks is rebuilt, and notes when what was.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "repair_manager/plan/options.h"
#include "repair_manager/what_if/fluid_cluster.h"
#include "repair_manager/what_if/knobs.h"

namespace kintsugi::what_if {

struct LinkUse {
  uint32_t link = 0;  ///< number that FluidCluster gives to the link
  double bytes = 0, busy = 0;
};

/// What a simulation has to do, the same on every machine.
struct Work {
  uint64_t turns = 0;   ///< times at which something began or ended on a link
  uint64_t shares = 0;  ///< parts of flows on links whose rates were computed
  uint64_t plans = 0;   ///< repairs that were planned and carried out
};

/// Seconds since the first server was declared dead. A stripe counts as often as the repairs for which its own stands.
struct SimulatedLoss {
  double chunks = 0, stripes = 0, lost_stripes = 0;
  double waiting_chunks = 0;  ///< could be rebuilt and were not: there is no server for them
  double bytes = 0;           ///< bytes of the chunks that could be rebuilt
  size_t simulated = 0;       ///< repairs
  double begins_seconds = 0;
  std::optional<double> half_seconds, most_seconds, all_seconds;
  /// Seconds and the bytes that were rebuilt then, ascending.
  std::vector<std::pair<double, double>> progress;
  struct Level {
    double stripes = 0;
    double until_seconds = 0;
  };
  std::vector<Level> by_spare;   ///< index: chunks that may still be lost
  std::vector<LinkUse> busiest;  ///< the busiest first
  size_t rack_links = 0;         ///< number of the first link of a rack; 0: there is none
  size_t failed = 0;             ///< attempts
  Work work;
};

/// `most_links`: limit of `busiest`. `knobs`: how coarsely the simulation runs in which phase; for its block kBundle see
/// bundles.h.
SimulatedLoss simulate_loss(FluidState state, const repair_manager::Options& options, size_t most_links,
                            const WhatIfKnobs& knobs = {});

}  // namespace kintsugi::what_if
