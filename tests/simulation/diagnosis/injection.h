/// One run of the simulated campaign: a cluster under load, a fault, and what the monitor says of it.
#pragma once

#include <cstdint>
#include <string>

namespace kintsugi::simulation {

/// What was done and what was said of it, as one JSON object on one line: the seed first, then what docs/diagnosis.md and
/// scripts/lab/diagnosis/simulated.py read. `explain`: also prints what stands open when the fault is ended.
std::string run_injection(uint64_t seed, bool explain = false);

}  // namespace kintsugi::simulation
