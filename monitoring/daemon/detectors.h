/// The detectors that a monitor runs. Another one is added here and nowhere else.
#pragma once

#include <memory>
#include <vector>

#include "monitoring/daemon/detector.h"
#include "monitoring/progress/diagnosis.h"

namespace kintsugi::monitoring {

struct DetectorSettings {
  progress::Settings progress;
  bool behaviour = false;      ///< executions against what their inputs say, too
  bool only_progress = false;  ///< nothing but who holds everybody up, as when methods for that are compared
};

std::vector<std::unique_ptr<Detector>> make_detectors(const DetectorSettings& settings);

}  // namespace kintsugi::monitoring
