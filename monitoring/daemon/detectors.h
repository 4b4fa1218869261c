/// The detectors that a monitor runs. Another one is added here and nowhere else.
#pragma once

#include <memory>
#include <vector>

#include "monitoring/daemon/detector.h"

namespace kintsugi::monitoring {

/// `behaviour`: executions against what their inputs say, too.
std::vector<std::unique_ptr<Detector>> make_detectors(bool behaviour);

}  // namespace kintsugi::monitoring
