/// How often verdicts were right in campaigns of injected faults (docs/evidence/diagnosis.md), by what they rest on: their
/// kind and how sure they called themselves.
#pragma once

#include <cstdint>
#include <optional>

#include "common/proto/sight.pb.h"

namespace kintsugi::proto {

struct MeasuredRate {
  uint32_t right = 0;  ///< verdicts that accused nobody but what the fault was done to
  uint32_t of = 0;     ///< all verdicts of that kind and confidence
};

/// With fewer verdicts than this a rate says nothing.
inline constexpr uint32_t kLeastMeasured = 20;

/// None: there were fewer than kLeastMeasured of them.
std::optional<MeasuredRate> measured_rate(Verdict::Kind kind, Verdict::Confidence confidence);

}  // namespace kintsugi::proto
