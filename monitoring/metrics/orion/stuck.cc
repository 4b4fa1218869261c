#include "monitoring/metrics/orion/stuck.h"

#include <algorithm>
#include <tuple>

namespace kintsugi::orion {

using metric_trace::Series;

namespace {

/// One region while rows are read.
struct Reading {
  Stretch longest;
  size_t rows = 0, last = 0;  ///< number of rows of the present stretch, and number of its last one
  double open = 0;
};

/// Longer stretches than this share of the longest are about as long.
constexpr double kAsLong = 0.9;

void read_segment(const Series& series, const metric_trace::Segment& segment,
                  std::map<std::string, Reading>& regions) {
  for (auto& [name, region] : regions)
    region.rows = 0;
  size_t known = 0,
         unknown = 0;  // rows of which something is known, counted; the unknown ones before this one
  for (size_t row = segment.begin; row < segment.end; ++row) {
    if (series.activity[row].empty()) {
      ++unknown;
      continue;
    }
    known += unknown > kMostUnknown ? 2 : 1;  // a number that is left out breaks each stretch
    unknown = 0;
    for (const metric_trace::RegionActivity& each : series.activity[row]) {
      if (!(each.open > 0)) continue;
      Reading& region = regions[series.regions[each.region]];
      if (region.rows == 0 || region.last + 1 < known) region.rows = 0, region.open = 0;
      if (region.rows == 0 || region.last < known) ++region.rows;
      region.last = known;
      region.open += static_cast<double>(each.open);
      ++region.longest.seen;
      if (region.rows > region.longest.rows) {
        region.longest.rows = region.rows;
        region.longest.open = region.open / static_cast<double>(region.rows);
      }
    }
  }
}

}  // namespace

Stretches stretches_of(const Series& series) {
  std::map<std::string, Reading> regions;
  for (const metric_trace::Segment& segment : series.segments)
    read_segment(series, segment, regions);
  Stretches out;
  for (auto& [name, region] : regions)
    out.emplace(name, region.longest);
  return out;
}

std::vector<StuckRegion> stuck_regions(const Stretches& now, const std::vector<const Stretches*>& healthy,
                                       std::chrono::nanoseconds period) {
  const double row_s = std::chrono::duration<double>(period).count();
  struct Candidate {
    StuckRegion region;
    double open;
  };
  std::vector<Candidate> found;
  double longest = 0;
  for (const auto& [name, stretch] : now) {
    Stretch usual;
    for (const Stretches* each : healthy)
      if (const auto known = each->find(name); known != each->end()) {
        usual.rows = std::max(usual.rows, known->second.rows);
        usual.seen += known->second.seen;
      }
    const double most = kStuckMargin * static_cast<double>(std::max(usual.rows, kShortest));
    const auto rows = static_cast<double>(stretch.rows);
    if (usual.seen < kFewestSeen || stretch.rows < kFewestStuckRows || rows <= most) continue;
    found.push_back({.region = {.name = name,
                                .seconds = rows * row_s,
                                .healthy_seconds = static_cast<double>(usual.rows) * row_s,
                                .excess = rows / most},
                     .open = stretch.open});
    longest = std::max(longest, rows * row_s);
  }
  std::ranges::stable_sort(found, {}, [&](const Candidate& one) {
    const bool as_long = one.region.seconds >= kAsLong * longest;
    return std::tuple(!as_long, as_long ? one.open : 0, -one.region.seconds);
  });
  std::vector<StuckRegion> out;
  for (Candidate& one : found)
    out.push_back(std::move(one.region));
  return out;
}

}  // namespace kintsugi::orion
