#include "monitoring/behaviour/region_watch.h"

#include <algorithm>

namespace kintsugi::behaviour {

RegionWatch::RegionWatch(std::vector<Range> ranges) : ranges_(std::move(ranges)), regions_(ranges_.size()) {}

size_t RegionWatch::region_of(size_t input, double value) const {
  const Range& range = ranges_[input];
  if (value < range.low || !(range.high > range.low)) return 0;
  if (value > range.high) return kRegions - 1;
  const double at = (value - range.low) / (range.high - range.low) * (kRegions - 2);
  return 1 + std::min<size_t>(kRegions - 3, static_cast<size_t>(at));
}

std::optional<RegionWatch::Found> RegionWatch::add(std::span<const double> inputs, double observed,
                                                   double residual, uint64_t server) {
  const int side = residual > kDeviations ? 1 : residual < -kDeviations ? -1 : 0;
  std::optional<Found> found;
  for (size_t f = 0; f < ranges_.size(); ++f) {
    Region& region = regions_[f][region_of(f, inputs[f])];
    if (side == 0 || side != region.side || region.run >= kMostKept) region = Region{.side = side};
    if (side == 0) continue;
    ++region.run;
    region.inputs.emplace_back(inputs.begin(), inputs.end());
    region.observed.push_back(observed);
    ++region.servers[server];
    const auto shares = std::count_if(region.servers.begin(), region.servers.end(),
                                      [&](const auto& of) { return 4 * of.second >= region.run; });
    if (region.run < kEnough || shares < 2 || found) continue;
    found = Found{.input = f, .low = inputs[f], .high = inputs[f]};
    found->samples.inputs.resize(inputs.size());
    for (size_t i = 0; i < region.run; ++i) {
      for (size_t g = 0; g < inputs.size(); ++g)
        found->samples.inputs[g].push_back(region.inputs[i][g]);
      found->samples.observed.push_back(region.observed[i]);
      found->low = std::min(found->low, region.inputs[i][f]);
      found->high = std::max(found->high, region.inputs[i][f]);
    }
  }
  if (found)
    for (auto& of_input : regions_)
      of_input = {};
  return found;
}

size_t RegionWatch::candidates() const {
  size_t count = 0;
  for (const auto& of_input : regions_)
    count += static_cast<size_t>(std::count_if(of_input.begin(), of_input.end(),
                                               [](const Region& r) { return r.run >= kSuccessive; }));
  return count;
}

}  // namespace kintsugi::behaviour
