#include "monitoring/daemon/metrics_api.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "monitoring/metrics/trace/files.h"

namespace kintsugi::monitoring {
namespace {

using Document = nlohmann::ordered_json;

std::optional<uint8_t> hex_byte(std::string_view digits) {
  uint8_t byte = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
  if (digits.size() != 2 || parsed.ptr != digits.data() + digits.size()) return {};
  return byte;
}

/// A part of a URL as it was before it was escaped.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = text[i] == '%' ? hex_byte(text.substr(i + 1, 2)) : std::nullopt;
    if (byte) i += 2;
    plain += byte ? static_cast<char>(*byte) : text[i] == '+' ? ' ' : text[i];
  }
  return plain;
}

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names(1);
  bool inside = false;
  for (const char c : text) {
    if (c == '{') inside = true;
    if (c == '}') inside = false;
    if (c == ',' && !inside) {
      names.emplace_back();
    } else {
      names.back() += c;
    }
  }
  std::erase(names, "");
  return names;
}

Result<double> seconds_of(std::string_view key, std::string_view text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !(value > 0) ||
      value > MetricsQuery::kLongest)
    return Status(Code::kInvalidArgument, fmt::format("{}: \"{}\" is no number of seconds", key, text));
  return value;
}

std::string_view kind_name(metric_trace::Kind kind) {
  return kind == metric_trace::Kind::kCounter ? "counter" : "gauge";
}

Document number(double value) {
  return std::isfinite(value) ? Document(value) : Document();
}

Document recording_document(const MetricsSource& source) {
  return {{"on", source.records},        {"period_s", source.period_s},
          {"rows", source.state.rows},   {"missed_rows", source.state.missed_rows},
          {"bytes", source.state.bytes}, {"stopped", source.state.stopped}};
}

void list(Document& document, const metric_trace::Header& header) {
  Document servers = Document::array();
  for (const metric_trace::Source& source : header.sources)
    servers.push_back({{"name", source.name}, {"build", source.build_id}, {"metrics", Document::array()}});
  for (const metric_trace::Metric& metric : header.metrics)
    servers[metric.source]["metrics"].push_back({{"name", metric.name}, {"kind", kind_name(metric.kind)}});
  for (const metric_trace::Region& region : header.regions)
    servers[region.source]["metrics"].push_back(
        {{"name", metric_trace::open_metric(region.name)}, {"kind", kind_name(metric_trace::Kind::kGauge)}});
  document["servers"] = std::move(servers);
}

Document points_of(const metric_trace::DigestedSeries& series, int64_t since_ns, int64_t step_ns) {
  Document points = Document::array();
  for (const auto& [step, bin] : series.bins) {
    const double t_s = static_cast<double>((since_ns + step * step_ns) / 1'000'000) / 1e3;
    points.push_back(Document::array({t_s, bin.least, bin.mean(), bin.most}));
  }
  return points;
}

}  // namespace

Result<MetricsQuery> MetricsQuery::parse(std::string_view query) {
  MetricsQuery parsed;
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    const size_t sign = std::min(part.find('='), part.size());
    const std::string_view key = part.substr(0, sign);
    const std::string value = unescaped(part.substr(std::min(sign + 1, part.size())));
    if (key == "server") {
      parsed.server = value;
    } else if (key == "names") {
      parsed.names = split_names(value);
    } else if (key == "since") {
      KINTSUGI_ASSIGN(parsed.since_s, seconds_of(key, value));
    } else if (key == "step") {
      KINTSUGI_ASSIGN(parsed.step_s, seconds_of(key, value));
    } else if (key == "sum") {
      if (value != "yes") return Status(Code::kInvalidArgument, "sum: only \"yes\" is understood");
      parsed.sums = true;
    } else if (!part.empty()) {
      return Status(Code::kInvalidArgument, fmt::format("there is no parameter \"{}\"", key));
    }
  }
  if (parsed.names.size() > kMostNames)
    return Status(Code::kInvalidArgument, fmt::format("names: at most {}", kMostNames));
  return parsed;
}

double MetricsQuery::step(double period_s) const {
  const double wanted = step_s > 0 ? step_s : since_s / kUsualPoints;
  return std::max({wanted, since_s / kMostPoints, period_s});
}

std::string metrics_document(const MetricsQuery& query, const MetricsSource& source, int64_t now_ns,
                             const std::stop_token& stop) {
  Document document = {{"now_unix_s", static_cast<double>(now_ns / 1'000'000) / 1e3},
                       {"recording", recording_document(source)}};
  Status read;
  if (query.names.empty()) {
    const auto header = metric_trace::known_header(source.directory);
    if (!header) read = header.error();
    list(document, header ? *header : metric_trace::Header());
  } else {
    // Steps lie at multiples of their length, so that the same time gives the same points whenever it is asked for.
    const auto step_ns = static_cast<int64_t>(query.step(source.period_s) * 1e9);
    const auto back_ns = static_cast<int64_t>(query.since_s * 1e9);
    const int64_t since_ns = (now_ns - back_ns) / step_ns * step_ns;
    metric_trace::Digest digest({.source = query.server,
                                 .metrics = query.names,
                                 .since_ns = since_ns,
                                 .until_ns = now_ns + 1,
                                 .step_ns = step_ns,
                                 .sums = query.sums});
    read = metric_trace::for_each_part(
        source.directory, since_ns, [&](const metric_trace::Trace& part) { digest.add(part); }, stop);
    document["since_unix_s"] = static_cast<double>(since_ns / 1'000'000) / 1e3;
    document["step_s"] = static_cast<double>(step_ns) / 1e9;
    document["series"] = Document::array();
    for (const metric_trace::DigestedSeries& series : digest.series())
      document["series"].push_back({{"server", series.source},
                                    {"metric", series.metric},
                                    {"kind", kind_name(series.kind)},
                                    {"limit", number(series.limit)},
                                    {"points", points_of(series, since_ns, step_ns)}});
    document["restarts"] = Document::array();
    for (const auto& [server, t_ns] : digest.restarts())
      document["restarts"].push_back(
          {{"server", server}, {"unix_s", static_cast<double>(t_ns / 1'000'000) / 1e3}});
  }
  if (!read.ok()) document["problem"] = read.to_string();
  return document.dump(-1, ' ', false, Document::error_handler_t::replace) + "\n";
}

}  // namespace kintsugi::monitoring
