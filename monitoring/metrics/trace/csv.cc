#include "monitoring/metrics/trace/csv.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "common/base/quote.h"

namespace kintsugi::metric_trace {
namespace {

constexpr std::string_view kFirst = "# kintsugi-trace";

std::string cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text)
    out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

/// The shortest form that reads as the same number; nothing for a missing one.
std::string number(double value) {
  return std::isnan(value) ? "" : fmt::format("{}", value);
}

std::string row_line(const Row& row) {
  std::string line = fmt::format("{}", row.t_ns), open, restarts;
  for (const double value : row.values)
    line += "," + number(value);
  for (const RegionActivity& one : row.activity)
    open += fmt::format("{}{}={}{}", open.empty() ? "" : ";", one.region, one.open,
                        one.ended > 0 ? fmt::format("/{}", one.ended) : "");
  for (const Restart& one : row.restarts)
    restarts += fmt::format("{}{}={}", restarts.empty() ? "" : ";", one.source, one.build_id);
  return fmt::format("{},{},{}\n", line, cell(open), cell(restarts));
}

/// The next record of the text: a quoted cell may hold line breaks. Nothing after the last.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  bool next(std::vector<std::string>& cells) {
    cells.clear();
    if (rest_.empty()) return false;
    cells.emplace_back();
    ++line_;
    bool quoted = false;
    size_t i = 0;
    for (; i < rest_.size() && (quoted || rest_[i] != '\n'); ++i) {
      const char c = rest_[i];
      if (quoted && c == '"' && i + 1 < rest_.size() && rest_[i + 1] == '"')
        cells.back() += rest_[++i];
      else if (c == '"')
        quoted = !quoted;
      else if (c == ',' && !quoted)
        cells.emplace_back();
      else if (c != '\r' || quoted)
        cells.back() += c;
    }
    rest_.remove_prefix(std::min(i + 1, rest_.size()));
    return true;
  }
  size_t line() const { return line_; }

 private:
  std::string_view rest_;
  size_t line_ = 0;
};

template <class T>
bool parse(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_value(std::string_view text, double& value) {
  value = kMissing;
  return text.empty() || parse(text, value);
}

/// Calls `use` with each KEY=VALUE of "0=2;3=1"; false where one is not understood.
bool for_each_pair(std::string_view text, const auto& use) {
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const size_t equals = one.find('=');
    uint32_t key = 0;
    if (equals == std::string_view::npos || !parse(one.substr(0, equals), key) ||
        !use(key, one.substr(equals + 1)))
      return false;
  }
  return true;
}

bool parse_metric(const std::vector<std::string>& cells, Metric& metric) {
  if (cells.size() != 5 || (cells[3] != "counter" && cells[3] != "gauge")) return false;
  metric.name = cells[2];
  metric.kind = cells[3] == "counter" ? Kind::kCounter : Kind::kGauge;
  return parse(cells[1], metric.source) && parse_value(cells[4], metric.limit);
}

/// A line that begins with "# ".
bool parse_description(const std::vector<std::string>& cells, Header& header) {
  const std::string_view what = std::string_view(cells[0]).substr(2);
  if (what == "source" && (cells.size() == 3 || cells.size() == 4)) {
    Source& source = header.sources.emplace_back(Source{.name = cells[1], .build_id = cells[2]});
    return cells.size() == 3 || parse(cells[3], source.process);
  }
  if (what == "metric") return parse_metric(cells, header.metrics.emplace_back());
  if (what == "region" && cells.size() == 3) {
    Region& region = header.regions.emplace_back();
    region.name = cells[2];
    return parse(cells[1], region.source);
  }
  if (cells.size() != 2) return false;
  int64_t period = 0;
  if (what == "period_ns" && parse(cells[1], period)) {
    header.period = std::chrono::nanoseconds(period);
    return true;
  }
  if (what == "host") header.host = cells[1];
  if (what == "workload") header.workload = cells[1];
  return what == "host" || what == "workload" || what == "kintsugi-trace";
}

bool parse_row(const std::vector<std::string>& cells, size_t metrics, Row& row) {
  if (cells.size() != metrics + 3 || !parse(cells[0], row.t_ns)) return false;
  row.values.resize(metrics);
  for (size_t i = 0; i < metrics; ++i)
    if (!parse_value(cells[i + 1], row.values[i])) return false;
  return for_each_pair(cells[metrics + 1],
                       [&](uint32_t region, std::string_view counts) {
                         auto& activity = row.activity.emplace_back(RegionActivity{.region = region});
                         const size_t slash = counts.find('/');
                         return parse(counts.substr(0, slash), activity.open) &&
                                (slash == counts.npos || parse(counts.substr(slash + 1), activity.ended));
                       }) &&
         for_each_pair(cells[metrics + 2], [&](uint32_t source, std::string_view build) {
           row.restarts.push_back({.source = source, .build_id = std::string(build)});
           return true;
         });
}

}  // namespace

std::string to_csv(const Trace& trace) {
  const Header& header = trace.header;
  std::string out = fmt::format("{},1\n# period_ns,{}\n# host,{}\n# workload,{}\n", kFirst,
                                header.period.count(), cell(header.host), cell(header.workload));
  for (const Source& source : header.sources)
    out += fmt::format("# source,{},{},{}\n", cell(source.name), cell(source.build_id), source.process);
  for (const Metric& metric : header.metrics)
    out += fmt::format("# metric,{},{},{},{}\n", metric.source, cell(metric.name),
                       metric.kind == Kind::kCounter ? "counter" : "gauge", number(metric.limit));
  for (const Region& region : header.regions)
    out += fmt::format("# region,{},{}\n", region.source, cell(region.name));
  out += "t_ns";
  for (const Metric& metric : header.metrics)
    out += "," + cell(header.sources[metric.source].name + ":" + metric.name);
  out += ",open,restarts\n";
  for (const Row& row : trace.rows)
    out += row_line(row);
  return out;
}

Result<Trace> from_csv(std::string_view text) {
  Trace trace;
  Lines lines(text);
  std::vector<std::string> cells;
  if (!lines.next(cells) || cells[0] != kFirst)
    return Status(Code::kCorrupt, fmt::format("line 1: a trace as CSV begins with \"{},1\"", kFirst));
  bool titles = false;
  while (lines.next(cells)) {
    bool understood = true;
    if (!titles && cells[0].starts_with("# ")) {
      understood = parse_description(cells, trace.header);
    } else if (!titles) {
      titles = true;
      understood = cells[0] == "t_ns" && cells.size() == trace.header.metrics.size() + 3;
      if (const Status status = check(trace.header); !status.ok())
        return Status(Code::kCorrupt, fmt::format("line {}: {}", lines.line(), status.message()));
    } else {
      Row& row = trace.rows.emplace_back();
      understood = parse_row(cells, trace.header.metrics.size(), row) && check(trace.header, row).ok();
    }
    if (!understood)
      return Status(Code::kCorrupt,
                    fmt::format("line {} is not understood: {}", lines.line(), quoted(cells[0], 40)));
  }
  if (!titles) return Status(Code::kCorrupt, "the table has no line of titles, which begins with t_ns");
  return trace;
}

}  // namespace kintsugi::metric_trace
