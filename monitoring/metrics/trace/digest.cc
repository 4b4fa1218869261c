#include "monitoring/metrics/trace/digest.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "monitoring/metrics/trace/series.h"

namespace kintsugi::metric_trace {
namespace {

double open_in(const Row& row, size_t region) {
  for (const RegionActivity& activity : row.activity)
    if (activity.region == region) return static_cast<double>(activity.open);
  return 0;
}

}  // namespace

std::string open_metric(std::string_view region) {
  return fmt::format("kintsugi_module_open{{module=\"{}\"}}", region);
}

bool Digest::wants(std::string_view source, std::string_view metric) const {
  return (request_.source.empty() || request_.source == source) &&
         std::ranges::find(request_.metrics, metric) != request_.metrics.end();
}

void Digest::add_column(std::vector<Column>& columns, const Header& header, const Metric& metric,
                        Column column) {
  const std::string& source = header.sources[metric.source].name;
  if (!wants(source, metric.name)) return;
  const std::string shown = request_.sums ? std::string() : source;
  const auto [known, added] = known_.try_emplace({shown, metric.name}, series_.size());
  if (added && series_.size() >= kMostSeries) {
    known_.erase(known);
    return;
  }
  if (added) {
    series_.push_back(
        {.source = shown, .metric = metric.name, .kind = metric.kind, .limit = metric.limit, .bins = {}});
  }
  column.series = known->second;
  column.last = known_last_.try_emplace({source, metric.name}, last_.size()).first->second;
  last_.resize(std::max(last_.size(), column.last + 1));
  column.source = metric.source;
  columns.push_back(column);
}

std::vector<Digest::Column> Digest::columns_of(const Header& header) {
  std::vector<Column> columns;
  // What a process says of itself stands last among its metrics, and is missing when its regions are.
  std::vector<std::optional<size_t>> witness(header.sources.size());
  for (size_t i = 0; i < header.metrics.size(); ++i) {
    add_column(columns, header, header.metrics[i], {.at = i, .witness = {}});
    witness[header.metrics[i].source] = i;
  }
  for (size_t i = 0; i < header.regions.size(); ++i) {
    const Region& region = header.regions[i];
    const Metric metric{.name = open_metric(region.name), .kind = Kind::kGauge, .source = region.source};
    if (witness[region.source])
      add_column(columns, header, metric, {.at = i, .witness = witness[region.source]});
  }
  return columns;
}

void Digest::add(const Trace& part) {
  const std::vector<Column> columns = columns_of(part.header);
  if (columns.empty()) return;
  for (const Row& row : part.rows)
    add_row(part.header, columns, row);
}

void Digest::add_row(const Header& header, const std::vector<Column>& columns, const Row& row) {
  const bool counts = row.t_ns >= request_.since_ns && row.t_ns < request_.until_ns;
  for (const Restart& restart : row.restarts) {
    bool shown = false;
    for (const Column& column : columns) {
      if (column.source != restart.source) continue;
      last_[column.last] = {};
      shown = true;
    }
    if (shown && counts) restarts_.emplace_back(header.sources[restart.source].name, row.t_ns);
  }
  const int64_t longest_gap_ns = header.period.count() * kLongestGap;
  std::vector<double> sums(series_.size(), kMissing);  // without DigestRequest::sums a series has one column
  for (const Column& column : columns) {
    const double value = row.values[column.witness.value_or(column.at)];
    const bool is_open_region = column.witness && std::isfinite(value);
    const auto says =
        told(column, is_open_region ? open_in(row, column.at) : value, row.t_ns, longest_gap_ns);
    double& sum = sums[column.series];
    if (says) sum = std::isfinite(sum) ? sum + *says : *says;
  }
  for (size_t i = 0; counts && i < sums.size(); ++i)
    if (std::isfinite(sums[i])) add_value(series_[i], sums[i], row.t_ns);
}

std::optional<double> Digest::told(const Column& column, double value, int64_t t_ns, int64_t longest_gap_ns) {
  if (!std::isfinite(value)) return {};
  if (series_[column.series].kind != Kind::kCounter) return value;
  Last& last = last_[column.last];
  const double grown = value - last.value;
  const int64_t passed_ns = t_ns - last.t_ns;
  last = {.value = value, .t_ns = t_ns};
  if (!(grown >= 0) || passed_ns <= 0 || passed_ns > longest_gap_ns) return {};
  return grown / static_cast<double>(passed_ns) * 1e9;
}

void Digest::add_value(DigestedSeries& series, double value, int64_t t_ns) {
  const auto [bin, added] = series.bins.try_emplace((t_ns - request_.since_ns) / request_.step_ns,
                                                    Bin{.least = value, .most = value});
  bin->second.least = std::min(bin->second.least, value);
  bin->second.most = std::max(bin->second.most, value);
  bin->second.sum += value;
  ++bin->second.rows;
}

}  // namespace kintsugi::metric_trace
