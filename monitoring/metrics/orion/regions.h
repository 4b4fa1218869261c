/// In which regions of code to look: those in which nothing ends, whose executions cost more, or that are open more than on
/// the healthy trace. Pure.
#pragma once

#include <string>
#include <vector>

#include "monitoring/metrics/orion/costs.h"
#include "monitoring/metrics/orion/stuck.h"
#include "monitoring/metrics/trace/series.h"

namespace kintsugi::orion {

/// At most so many metrics, and regions, are named.
inline constexpr size_t kNamed = 3;

struct OddRegion {
  std::string name;
  double share = 0;    ///< share of all time that regions were open
  double healthy = 0;  ///< the same share on the healthy trace
  double surplus = 0;  ///< how much more often it was seen open than then, in deviations of such a count
  static constexpr double kLeastSurplus = 2;
};

/// A region, and those that cannot be told from it.
struct NamedRegion {
  std::string name;
  std::vector<std::string> aliases;

  bool operator==(const NamedRegion&) const = default;
};

/// Regions that were open more than before, the greatest surplus first, at most kNamed; empty: there is none.
std::vector<OddRegion> regions_open_more(const metric_trace::Series& healthy,
                                         const metric_trace::Series& now);

/// The parts of all of them are half of the growth at least.
bool explain_half(const std::vector<DearerRegion>& dearer);

/// At most kNamed: regions in which nothing ends, then those whose executions cost more, then those that were open more than
/// before.
std::vector<NamedRegion> where_to_look(const std::vector<StuckRegion>& stuck,
                                       const std::vector<DearerRegion>& dearer,
                                       const std::vector<OddRegion>& open_more);

}  // namespace kintsugi::orion
