#include "tracing/cause/interval.h"

#include <algorithm>

namespace kintsugi::cause {
namespace {

using anomaly::Profile;

/// The candidate that this fragment finds odd, or kNone.
Result<uint32_t> top_outlier(const std::vector<anomaly::PathTotals>& totals,
                             std::span<const uint32_t> candidates, const anomaly::CallPaths& paths) {
  std::vector<Profile> profiles;
  for (uint32_t group : candidates)
    profiles.push_back(anomaly::profile_of(totals[group], paths, anomaly::ProfileKind::kTime));
  KINTSUGI_ASSIGN(const anomaly::Ranking ranking, anomaly::rank(profiles));
  if (ranking.answer != anomaly::Answer::kOutlier) return flow::kNone;
  return candidates[ranking.scores.front().trial];
}

}  // namespace

Result<std::optional<AnomalousInterval>> anomalous_interval(const flow::Trace& trace,
                                                            const anomaly::Groups& groups,
                                                            std::span<const uint32_t> candidates,
                                                            uint32_t anomalous, anomaly::CallPaths& paths,
                                                            const IntervalSettings& settings) {
  anomaly::Fragments fragments{.begin_ns = std::numeric_limits<int64_t>::max(),
                               .end_ns = std::numeric_limits<int64_t>::min(),
                               .count = std::max(1u, settings.fragments)};
  for (const flow::Event& event : trace.events()) {
    fragments.begin_ns = std::min(fragments.begin_ns, event.time_ns);
    fragments.end_ns =
        std::max(fragments.end_ns, std::max(event.time_ns, trace.processes()[event.process].end_ns));
  }
  if (fragments.begin_ns >= fragments.end_ns) return std::optional<AnomalousInterval>();
  const auto by_fragment = anomaly::totals_of_fragments(trace, groups, paths, fragments);
  uint32_t row = 0;
  for (uint32_t fragment = 0; fragment < fragments.count; ++fragment) {
    KINTSUGI_ASSIGN(const uint32_t top, top_outlier(by_fragment[fragment], candidates, paths));
    row = top == anomalous ? row + 1 : 0;
    if (row < std::max(1u, settings.in_a_row)) continue;
    const uint32_t first = fragment + 1 - row;
    const double width = static_cast<double>(fragments.end_ns - fragments.begin_ns) / fragments.count;
    return std::optional(
        AnomalousInterval{.fragment = first,
                          .begin_ns = fragments.begin_ns + static_cast<int64_t>(width * first),
                          .end_ns = fragments.begin_ns + static_cast<int64_t>(width * (first + 1))});
  }
  return std::optional<AnomalousInterval>();
}

}  // namespace kintsugi::cause
