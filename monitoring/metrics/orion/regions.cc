#include "monitoring/metrics/orion/regions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace kintsugi::orion {

using metric_trace::Series;

namespace {

/// How often each region was seen open, by name: sums over all rows.
std::map<std::string, double> seen_open(const Series& series) {
  std::map<std::string, double> out;
  for (const auto& row : series.activity)
    for (const metric_trace::RegionActivity& each : row)
      out[series.regions[each.region]] += each.open;
  return out;
}

double sum_of(const std::map<std::string, double>& seen) {
  double sum = 0;
  for (const auto& [name, open] : seen)
    sum += open;
  return sum;
}

}  // namespace

bool explain_half(const std::vector<DearerRegion>& dearer) {
  double part = 0;
  for (const DearerRegion& region : dearer)
    part += region.part;
  return part >= 0.5;
}

/// A row sees only what is open at that moment, so that a region of a millisecond is seen a few times in a minute. What
/// counts is how many times more often it was seen than the healthy time lets expect, in deviations of a count.
std::vector<OddRegion> regions_open_more(const Series& healthy, const Series& now) {
  const auto before = seen_open(healthy), after = seen_open(now);
  const double all_before = sum_of(before), all_after = sum_of(after);
  const auto rows = static_cast<double>(now.rows()) / std::max(static_cast<double>(healthy.rows()), 1.0);
  std::vector<OddRegion> out;
  for (const auto& [name, open] : after) {
    const auto found = before.find(name);
    const double usual = found == before.end() ? 0 : found->second;
    const double surplus = (open - usual * rows) / std::sqrt(usual * rows + 1);
    if (surplus < OddRegion::kLeastSurplus) continue;
    out.push_back({.name = name,
                   .share = open / all_after,
                   .healthy = all_before > 0 ? usual / all_before : 0,
                   .surplus = surplus});
  }
  std::ranges::stable_sort(out, std::greater(), &OddRegion::surplus);
  out.resize(std::min(out.size(), kNamed));
  return out;
}

std::vector<NamedRegion> where_to_look(const std::vector<StuckRegion>& stuck,
                                       const std::vector<DearerRegion>& dearer,
                                       const std::vector<OddRegion>& open_more) {
  std::vector<NamedRegion> out;
  const auto add = [&out](const std::string& name, const std::vector<std::string>& aliases) {
    const bool known = std::ranges::any_of(out, [&](const NamedRegion& each) {
      return each.name == name || std::ranges::count(each.aliases, name) > 0;
    });
    if (!known) out.push_back({name, aliases});
  };
  for (const StuckRegion& region : stuck)
    add(region.name, {});
  for (const DearerRegion& region : dearer)
    add(region.name, region.aliases);
  for (const OddRegion& region : open_more)
    add(region.name, {});
  out.resize(std::min(out.size(), kNamed));
  return out;
}

}  // namespace kintsugi::orion
