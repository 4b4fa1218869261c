/// What makes an anomalous profile differ most from the normal one it was compared with (Mirgorodskiy 2006, sections 5.3.2
/// and 5.5): the most visible symptom, often but not always the cause.
#pragma once

#include "tracing/anomaly/profile.h"

namespace kintsugi::cause {

/// One component of the delta vector.
struct Difference {
  anomaly::Measure measure = anomaly::Measure::kTime;
  anomaly::PathId path = 0;
  double anomalous = 0, normal = 0;  ///< its shares in both
  double delta() const { return anomalous - normal; }
};

/// The largest components first (5.7), at most `most` of them; equals by measure and path.
std::vector<Difference> differences(const anomaly::Profile& anomalous, const anomaly::Profile& normal,
                                    size_t most);

}  // namespace kintsugi::cause
