#include "monitoring/metrics/trace/not_enough.h"

#include <stdexcept>

#include <fmt/format.h>

namespace kintsugi::metric_trace {

std::string NotEnough::to_string() const {
  const auto because = [](const std::string& reason) { return "not enough data because " + reason; };
  switch (lack) {
    case Lack::kSamples: return because(fmt::format("there are {} samples of {}", have, need));
    case Lack::kKnownValues: return because("values are missing in the window");
    case Lack::kMovingLoad: return because("the load hardly changes in the window");
    case Lack::kMovingResiduals: return because("nothing moves in the window but with the load");
    case Lack::kMetrics: return because("the trace does not have the metrics");
    case Lack::kHealthyReference:
      return because(fmt::format("there are {} healthy runs of {} to compare with", have, need));
    case Lack::kHealthyPast:
      return because(fmt::format("there are {} samples of {} of a healthy time before", have, need));
    case Lack::kPeers:
      return because(fmt::format("there are {} processes of its role, and {} are needed", have, need));
    case Lack::kStateChanges:
      return because(fmt::format("the states change {} times, and {} are needed", have, need));
  }
  return because("of an unknown reason");
}

void throw_exception_from_error(const NotEnough& lack, const boost::source_location&) {
  throw std::logic_error(lack.to_string());
}

}  // namespace kintsugi::metric_trace
