#include "monitoring/daemon/region_table.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "common/base/statistics.h"
#include "common/proto/verdicts.h"

namespace kintsugi::monitoring {
namespace {

/// Times in a region, over processes.
struct RegionTotals {
  uint64_t count = 0;
  double sum_log2 = 0;  ///< sum of log2(nanoseconds)
  std::vector<uint64_t> buckets;
  double per_second = 0;
  std::map<std::string, std::pair<uint64_t, double>> by_process;  ///< key: name of the process; count and sum
};

double typical_seconds(uint64_t count, double sum_log2) {
  return count == 0 ? 0 : std::exp2(sum_log2 / static_cast<double>(count)) / 1e9;
}

/// The upper end of the octave in which it lies.
double percentile_seconds(const RegionTotals& region, double fraction) {
  uint64_t all = 0, below = 0;
  for (uint64_t bucket : region.buckets)
    all += bucket;
  for (size_t octave = 0; octave < region.buckets.size(); ++octave) {
    below += region.buckets[octave];
    if (all > 0 && static_cast<double>(below) >= fraction * static_cast<double>(all))
      return std::exp2(static_cast<double>(octave + 1)) / 1e9;
  }
  return 0;
}

/// Names of the states of a process: the region, and after which of its children.
std::map<uint32_t, std::string> names_of_states(const proto::SightReport& everything) {
  std::map<uint64_t, std::string> sites;  // key: role path
  for (const proto::SightPath& path : everything.new_paths())
    sites.emplace(path.role_path(), path.site());
  std::map<uint32_t, std::string> roles, names;
  for (const proto::SightRole& role : everything.roles())
    roles[role.role()] = role.name();
  for (const proto::SightState& state : everything.new_states()) {
    const auto site = sites.find(state.role_path());
    std::string name = site == sites.end() ? fmt::format("state {}", state.state()) : site->second;
    const std::string& role = roles[state.role()];
    if (!role.empty() && role != name) name = role + " > " + name;
    if (state.wait() != proto::WAIT_NONE) name += fmt::format(" [{}]", proto::wait_name(state.wait()));
    names[state.state()] = std::move(name);
  }
  return names;
}

bool is_idle(const model::ProcessView& view, uint32_t state) {
  const proto::SightState* known = view.state(state);
  return known != nullptr && (known->wait() == proto::WAIT_IDLE || known->wait() == proto::WAIT_TIMER);
}

}  // namespace

nlohmann::ordered_json RegionTable::make() const {
  const model::Snapshot snapshot = monitor_.snapshot();
  std::map<std::string, RegionTotals> regions;
  size_t looked_at = 0;
  for (const auto& view : snapshot.processes) {
    if (view->edges().empty()) continue;
    if (++looked_at > Trends::kMostModelled) break;
    const std::map<uint32_t, std::string> names = names_of_states(view->to_report());
    double window = monitor_.trends().growth_seconds(view->process(), snapshot.taken);
    if (window <= 0) window = static_cast<double>(view->last().uptime_ns()) / 1e9;
    for (const auto& [key, edge] : view->edges()) {
      const Trends::Growth growth = monitor_.trends().growth(*view, edge);
      const auto name = names.find(edge.from());
      if (growth.count == 0 || name == names.end() || is_idle(*view, edge.from())) continue;
      RegionTotals& region = regions[name->second];
      const double sum = static_cast<double>(growth.sum) / 256;
      region.count += growth.count;
      region.sum_log2 += sum;
      region.buckets.resize(std::max(region.buckets.size(), growth.buckets.size()));
      for (size_t i = 0; i < growth.buckets.size(); ++i)
        region.buckets[i] += growth.buckets[i];
      if (window > 0) region.per_second += static_cast<double>(growth.count) / window;
      auto& [count, of_process] = region.by_process[view->display()];
      count += growth.count;
      of_process += sum;
    }
  }
  std::vector<std::pair<std::string, RegionTotals>> ordered(regions.begin(), regions.end());
  const auto total = [](const auto& entry) {
    return typical_seconds(entry.second.count, entry.second.sum_log2) *
           static_cast<double>(entry.second.count);
  };
  std::ranges::stable_sort(ordered, std::greater{}, total);
  if (ordered.size() > kMostRegions) ordered.resize(kMostRegions);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [name, region] : ordered) {
    std::string slowest;
    double slowest_seconds = 0;
    std::vector<double> all;
    for (const auto& [process, of_process] : region.by_process) {
      const double typical = typical_seconds(of_process.first, of_process.second);
      all.push_back(typical);
      if (typical <= slowest_seconds) continue;
      slowest = process;
      slowest_seconds = typical;
    }
    const double usual = median_of(all);
    list.push_back({{"region", name},
                    {"count", region.count},
                    {"per_second", region.per_second},
                    {"typical_s", typical_seconds(region.count, region.sum_log2)},
                    {"p99_s", percentile_seconds(region, 0.99)},
                    {"processes", region.by_process.size()},
                    {"slowest", slowest},
                    {"slowest_s", slowest_seconds},
                    {"slowest_factor", usual > 0 ? slowest_seconds / usual : 0}});
  }
  return list;
}

}  // namespace kintsugi::monitoring
