/// Guardian's rules as the text has them (Mitra 2016, algorithm 4): what our rule for alarms is compared with. Pure.
#pragma once

#include <cmath>
#include <cstdint>

#include "monitoring/behaviour/guardian.h"

namespace kintsugi::behaviour {

/// The detectors of the text, each applied to the same judgement.
enum class Variant : uint8_t {
  kA,        ///< anomaly: the error is greater than expected
  kB,        ///< anomaly: `probability` is above 0.9
  kFixed10,  ///< anomaly: the error exceeds 10 % of the prediction; a baseline, like those below
  kFixed50,
  kFixed100,
};

inline bool is_anomaly(const Judgement& judgement, Variant variant, bool more_only) {
  if (!judgement.known) return false;
  const double size = more_only ? judgement.error : std::abs(judgement.error);
  switch (variant) {
    case Variant::kA: return judgement.beyond > 0;
    case Variant::kB: return judgement.probability > 0.9;
    case Variant::kFixed10: return size > 0.1;
    case Variant::kFixed50: return size > 0.5;
    case Variant::kFixed100: return size > 1;
  }
  return false;
}

}  // namespace kintsugi::behaviour
