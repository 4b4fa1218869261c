#include "monitoring/metrics/trace/selection.h"

#include <algorithm>
#include <optional>

namespace kintsugi::metric_trace {

Trace select(const Trace& trace, const Selection& selection, int64_t since_ns) {
  const Header& header = trace.header;
  Trace selected;
  selected.header.period = header.period;
  selected.header.host = header.host;
  selected.header.workload = header.workload;
  std::vector<std::optional<uint32_t>> sources(header.sources.size()), regions(header.regions.size());
  const auto place = [&](uint32_t source) {
    if (!sources[source]) {
      sources[source] = static_cast<uint32_t>(selected.header.sources.size());
      selected.header.sources.push_back(header.sources[source]);
    }
    return *sources[source];
  };
  const auto is_wanted = [&](uint32_t source) {
    return selection.source.empty() || selection.source == header.sources[source].name;
  };
  std::vector<size_t> columns;
  for (size_t i = 0; i < header.metrics.size(); ++i) {
    Metric metric = header.metrics[i];
    const bool named = selection.metrics.empty() ||
                       std::ranges::find(selection.metrics, metric.name) != selection.metrics.end();
    if (!named || !is_wanted(metric.source)) continue;
    metric.source = place(metric.source);
    selected.header.metrics.push_back(std::move(metric));
    columns.push_back(i);
  }
  const bool with_regions = selection.regions || selection.metrics.empty();
  for (size_t i = 0; i < header.regions.size() && with_regions && !columns.empty(); ++i) {
    Region region = header.regions[i];
    // A source without any of the metrics is not there.
    if (!is_wanted(region.source) || (!selection.metrics.empty() && !sources[region.source])) continue;
    region.source = place(region.source);
    regions[i] = static_cast<uint32_t>(selected.header.regions.size());
    selected.header.regions.push_back(std::move(region));
  }
  for (const Row& row : trace.rows) {
    if (row.t_ns < since_ns) continue;
    Row& kept = selected.rows.emplace_back();
    kept.t_ns = row.t_ns;
    for (const size_t column : columns)
      kept.values.push_back(row.values[column]);
    for (const RegionActivity& one : row.activity)
      if (regions[one.region])
        kept.activity.push_back({.region = *regions[one.region], .open = one.open, .ended = one.ended});
    for (const Restart& restart : row.restarts)
      if (sources[restart.source])
        kept.restarts.push_back(
            {.source = *sources[restart.source], .build_id = restart.build_id, .process = restart.process});
  }
  return selected;
}

}  // namespace kintsugi::metric_trace
