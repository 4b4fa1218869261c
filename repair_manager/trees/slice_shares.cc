#include "repair_manager/trees/slice_shares.h"

#include <algorithm>
#include <numeric>

#include "common/base/assert.h"

namespace kintsugi::repair_manager {
namespace {

constexpr double kNearlyAsGood = 0.98;

/// Returns the helpers by uplink, the fastest first.
std::vector<size_t> by_uplink(std::span<const LinkRate> helpers) {
  std::vector<size_t> order(helpers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return helpers[a].up > helpers[b].up; });
  return order;
}

/// Returns the units of each helper for a period: needed * period in all, none more than `period`.
std::vector<uint32_t> units_of(std::span<const LinkRate> helpers, std::span<const size_t> order,
                               size_t needed, double rate, uint32_t period) {
  std::vector<uint32_t> units(helpers.size());
  auto left = static_cast<uint32_t>(needed * period);
  for (size_t h : order) {
    const double can = helpers[h].up / rate * period * (1 + 1e-9);
    units[h] = std::min({left, period, static_cast<uint32_t>(std::min<double>(can, period))});
    left -= units[h];
  }
  for (; left > 0; --left) {
    size_t best = helpers.size();
    for (size_t h : order)
      if (units[h] < period &&
          (best == helpers.size() || (units[h] + 1) * helpers[best].up < (units[best] + 1) * helpers[h].up))
        best = h;
    KINTSUGI_ASSERT(best < helpers.size());
    ++units[best];
  }
  return units;
}

double uplink_rate(std::span<const LinkRate> helpers, const std::vector<uint32_t>& units, uint32_t period) {
  double rate = 1e300;
  for (size_t h = 0; h < helpers.size(); ++h)
    if (units[h] > 0) rate = std::min(rate, helpers[h].up * period / units[h]);
  return rate;
}

/// Applies McNaughton's wrap-around rule: a helper's units lie at consecutive positions of rows that are filled one
/// after the other; no more than one row long, they never meet themselves. Returns the helpers of each position.
std::vector<uint32_t> wrap_around(std::span<const size_t> order, std::span<const uint32_t> units,
                                  uint32_t period) {
  std::vector<uint32_t> helpers_at(period);
  uint32_t position = 0;
  for (size_t h : order) {
    for (uint32_t i = 0; i < units[h]; ++i) {
      helpers_at[position] |= 1u << h;
      position = (position + 1) % period;
    }
  }
  return helpers_at;
}

}  // namespace

std::vector<SliceShares::Group> lay_out_shares(std::span<const size_t> order, std::span<const uint32_t> units,
                                               uint32_t period) {
  std::vector<SliceShares::Group> groups;
  std::vector<uint32_t> counts;
  for (uint32_t set : wrap_around(order, units, period)) {
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const SliceShares::Group& group) { return group.helpers == set; });
    if (same == groups.end()) {
      groups.push_back({.helpers = set});
      counts.push_back(1);
    } else {
      ++counts[static_cast<size_t>(same - groups.begin())];
    }
  }
  // Interleaved: a group's i-th slice is due at i / count of the period and not taken earlier than (i - 1) /
  // count of it; each position goes to the one that is due first.
  std::vector<uint32_t> given(counts.size());
  for (uint32_t position = 0; position < period; ++position) {
    size_t first = counts.size();
    for (size_t g = 0; g < counts.size(); ++g) {
      if (given[g] * period > position * counts[g]) continue;
      if (first == counts.size() || (given[g] + 1) * counts[first] < (given[first] + 1) * counts[g])
        first = g;
    }
    KINTSUGI_ASSERT(first < counts.size());
    ++given[first];
    groups[first].slice_mask |= uint64_t{1} << position;
  }
  return groups;
}

SliceShares share_slices(std::span<const LinkRate> helpers, size_t needed, double rate, uint32_t most) {
  const std::vector<size_t> order = by_uplink(helpers);
  SliceShares shares{.needed = needed};
  std::vector<double> reached;
  double best = 0;
  for (uint32_t period = 1; period <= std::max(1u, most); ++period) {
    reached.push_back(uplink_rate(helpers, units_of(helpers, order, needed, rate, period), period));
    best = std::max(best, std::min(rate, reached.back()));
    if (best >= rate * kNearlyAsGood) break;
  }
  while (reached[shares.period - 1] < best * kNearlyAsGood)
    ++shares.period;
  shares.rate = reached[shares.period - 1];
  shares.units = units_of(helpers, order, needed, rate, shares.period);

  shares.groups = lay_out_shares(order, shares.units, shares.period);
  return shares;
}

}  // namespace kintsugi::repair_manager
