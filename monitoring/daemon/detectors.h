/// The detectors that a monitor runs. Another one is added here and nowhere else.
#pragma once

#include <memory>
#include <vector>

#include "monitoring/daemon/detector.h"

namespace kintsugi::monitoring {

class Foresight;

/// `behaviour`: executions against what their inputs say, too. `foresight`: what it foretells, too; null: nothing is.
std::vector<std::unique_ptr<Detector>> make_detectors(bool behaviour, const Foresight* foresight = nullptr);

}  // namespace kintsugi::monitoring
