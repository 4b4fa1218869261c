#include "monitoring/metrics/trace/trace.h"

#include <cmath>
#include <map>

#include <fmt/format.h>

#include "common/base/quote.h"

namespace kintsugi::metric_trace {
namespace {

Status check_count(std::string_view what, size_t count, size_t most) {
  return count <= most ? Status() : invalid(fmt::format("{} {}, at most {} are allowed", count, what, most));
}

/// Puts each item into `all` unless it is there, and returns where each one is.
template <class T, class Key>
std::vector<uint32_t> indices_in(std::vector<T>& all, std::map<Key, uint32_t>& known,
                                 const std::vector<T>& items, const auto& key_of) {
  std::vector<uint32_t> indices;
  for (const T& item : items) {
    const auto [at, added] = known.try_emplace(key_of(item), static_cast<uint32_t>(all.size()));
    if (added) all.push_back(item);
    indices.push_back(at->second);
  }
  return indices;
}

class Joiner {
 public:
  void add(Trace part) {
    if (out_.rows.empty() && out_.header.sources.empty()) {
      out_.header.period = part.header.period;
      out_.header.host = part.header.host;
      out_.header.workload = part.header.workload;
    }
    const auto sources = indices_in(out_.header.sources, sources_, part.header.sources,
                                    [](const Source& source) { return source.name; });
    for (Metric& metric : part.header.metrics)
      metric.source = sources[metric.source];
    for (Region& region : part.header.regions)
      region.source = sources[region.source];
    using Named = std::pair<uint32_t, std::string>;
    const auto metrics = indices_in(out_.header.metrics, metrics_, part.header.metrics,
                                    [](const Metric& metric) { return Named(metric.source, metric.name); });
    for (size_t i = 0; i < metrics.size(); ++i)
      if (std::isfinite(part.header.metrics[i].limit))
        out_.header.metrics[metrics[i]].limit = part.header.metrics[i].limit;  // the latest one holds
    const auto regions = indices_in(out_.header.regions, regions_, part.header.regions,
                                    [](const Region& region) { return Named(region.source, region.name); });
    builds_.resize(out_.header.sources.size());
    bool first = true;
    for (Row& row : part.rows) {
      if (first) note_builds(part.header, sources, row);
      first = false;
      out_.rows.push_back(moved(std::move(row), sources, metrics, regions));
    }
  }

  Trace finish() {
    for (Row& row : out_.rows)
      row.values.resize(out_.header.metrics.size(), kMissing);
    return std::move(out_);
  }

 private:
  /// A part whose source has another build begins with a restart of it.
  void note_builds(const Header& header, const std::vector<uint32_t>& sources, Row& row) {
    for (uint32_t i = 0; i < header.sources.size(); ++i) {
      const std::string& build = header.sources[i].build_id;
      const std::optional<std::string>& before = builds_[sources[i]];
      const auto same = [&](const Restart& restart) { return restart.source == i; };
      if (before && *before != build && std::ranges::none_of(row.restarts, same))
        row.restarts.push_back({.source = i, .build_id = build, .process = header.sources[i].process});
      builds_[sources[i]] = build;
    }
  }

  Row moved(Row row, const std::vector<uint32_t>& sources, const std::vector<uint32_t>& metrics,
            const std::vector<uint32_t>& regions) {
    std::vector<double> values(out_.header.metrics.size(), kMissing);
    for (size_t i = 0; i < row.values.size(); ++i)
      values[metrics[i]] = row.values[i];
    row.values = std::move(values);
    for (RegionActivity& activity : row.activity)
      activity.region = regions[activity.region];
    for (Restart& restart : row.restarts) {
      restart.source = sources[restart.source];
      builds_[restart.source] = restart.build_id;
    }
    return row;
  }

  Trace out_;
  std::map<std::string, uint32_t> sources_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> metrics_, regions_;
  std::vector<std::optional<std::string>> builds_;  ///< index: source; the last build that was seen
};

}  // namespace

Status check(const Header& header) {
  KINTSUGI_TRY(check_count("sources", header.sources.size(), kMostSources));
  KINTSUGI_TRY(check_count("metrics", header.metrics.size(), kMostMetrics));
  KINTSUGI_TRY(check_count("regions", header.regions.size(), kMostRegions));
  if (header.metrics.empty()) return invalid("no metrics");
  if (header.period <= std::chrono::nanoseconds(0) || header.period > std::chrono::hours(24))
    return invalid(fmt::format("a period of {} ns is not between 1 ns and a day", header.period.count()));
  for (const Metric& metric : header.metrics) {
    if (metric.source >= header.sources.size())
      return invalid(fmt::format("metric {} belongs to no source", quoted(metric.name, 64)));
    if (metric.name.empty() || metric.name.size() > kLongestName)
      return invalid(fmt::format("the name of a metric has {} bytes", metric.name.size()));
  }
  for (const Region& region : header.regions)
    if (region.source >= header.sources.size() || region.name.size() > kLongestName)
      return invalid(
          fmt::format("region {} belongs to no source, or its name is too long", quoted(region.name, 64)));
  for (const Source& source : header.sources)
    if (source.name.size() > kLongestName || source.build_id.size() > kLongestName)
      return invalid("the name or the build of a source is too long");
  if (header.host.size() > kLongestName || header.workload.size() > kLongestName)
    return invalid("the name of the host or of the workload is too long");
  return {};
}

Status check(const Header& header, const Row& row) {
  if (row.values.size() != header.metrics.size())
    return invalid(fmt::format("{} values for {} metrics", row.values.size(), header.metrics.size()));
  for (const RegionActivity& activity : row.activity)
    if (activity.region >= header.regions.size()) return invalid("a region that the header does not name");
  for (const Restart& restart : row.restarts)
    if (restart.source >= header.sources.size() || restart.build_id.size() > kLongestName)
      return invalid("a restart of a source that the header does not name");
  return {};
}

Result<uint32_t> find_source(const Header& header, std::string_view name) {
  std::string known;
  for (uint32_t i = 0; i < header.sources.size(); ++i) {
    if (header.sources[i].name == name) return i;
    known += (known.empty() ? "" : ", ") + header.sources[i].name;
  }
  return Status(Code::kNotFound,
                fmt::format("the trace has no source {}; it has: {}", quoted(name, 64), known));
}

Trace joined(std::vector<Trace> parts) {
  Joiner joiner;
  for (Trace& part : parts)
    joiner.add(std::move(part));
  return joiner.finish();
}

}  // namespace kintsugi::metric_trace
