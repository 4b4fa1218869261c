/// One run of the simulated campaign: a cluster under load, a fault, and what the monitor says of it.
#pragma once

#include <cstdint>
#include <string>

namespace kintsugi::simulation {

/// What was done and what was said of it, as one JSON object on one line: the seed first, then what docs/diagnosis.md and
/// scripts/lab/diagnosis/simulated.py read. `explain`: also prints, every second, what stands open while the fault is watched.
std::string run_injection(uint64_t seed, bool explain = false);

}  // namespace kintsugi::simulation
