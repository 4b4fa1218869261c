#include "monitoring/sight/pages.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include "monitoring/sight/otlp.h"
#include "monitoring/sight/source_place.h"

namespace kintsugi::sight {

namespace {

constexpr size_t kEventsShown = 1000;

/// Exclusive upper bound of a histogram bucket, in seconds.
double upper_seconds(size_t bucket) {
  if (bucket + 1 >= PathTotals::kBuckets) return std::numeric_limits<double>::infinity();
  return 1e-6 * double(uint64_t{1} << bucket);
}

class RecorderCollectable : public prometheus::Collectable {
 public:
  explicit RecorderCollectable(const Recorder& recorder) : recorder_(recorder) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    prometheus::MetricFamily durations{"kintsugi_module_seconds",
                                       "Duration of an instrumented module, by calling context.",
                                       prometheus::MetricType::Histogram,
                                       {}};
    prometheus::MetricFamily errors{"kintsugi_module_errors_total",
                                    "Module executions that ended with an error.",
                                    prometheus::MetricType::Counter,
                                    {}};
    const std::vector<PathTotals> totals = recorder_.totals();
    const auto names = path_names(totals);
    for (const PathTotals& path : totals) {
      prometheus::ClientMetric histogram;
      histogram.label = {{"module", std::string(path.site->name)}, {"path", names.at(path.path)}};
      prometheus::ClientMetric error_count;
      error_count.label = histogram.label;
      uint64_t cumulative = 0;
      for (size_t bucket = 0; bucket < PathTotals::kBuckets; ++bucket) {
        cumulative += path.histogram[bucket];
        histogram.histogram.bucket.push_back({cumulative, upper_seconds(bucket)});
      }
      histogram.histogram.sample_count = cumulative;
      histogram.histogram.sample_sum = to_seconds(path.total);
      error_count.counter.value = double(path.errors);
      durations.metric.push_back(std::move(histogram));
      errors.metric.push_back(std::move(error_count));
    }
    const auto one = [](const char* name, const char* help, uint64_t value) {
      prometheus::MetricFamily family{name, help, prometheus::MetricType::Counter, {{}}};
      family.metric[0].counter.value = double(value);
      return family;
    };
    prometheus::MetricFamily open{"kintsugi_module_open",
                                  "Executions of a module that have begun and not ended.",
                                  prometheus::MetricType::Gauge,
                                  {}};
    for (const auto& [name, count] : open_regions(recorder_)) {
      open.metric.emplace_back().label = {{"module", std::string(name)}};
      open.metric.back().gauge.value = double(count);
    }
    const LiveWork& live = recorder_.live();
    return {std::move(durations), std::move(errors), std::move(open),
            one("kintsugi_sight_dropped_total", "Open work that found no place in a table.", live.dropped()),
            one("kintsugi_sight_implicit_tasks_total", "Work side by side that nobody marked as tasks.",
                live.implicit_tasks().count())};
  }

 private:
  const Recorder& recorder_;
};

double percentile_seconds(const PathTotals& path, double fraction) {
  const double wanted = fraction * double(path.count);
  uint64_t cumulative = 0;
  for (size_t bucket = 0; bucket < PathTotals::kBuckets; ++bucket) {
    cumulative += path.histogram[bucket];
    if (double(cumulative) >= wanted) return upper_seconds(bucket);
  }
  return 0;
}

std::string render_paths(const Recorder& recorder) {
  std::string page = fmt::format("{:>10} {:>8} {:>12} {:>12} {:>12}  {}\n", "count", "errors", "mean us",
                                 "p50 us <", "p99 us <", "calling context");
  const std::vector<PathTotals> totals = recorder.totals();
  const auto names = path_names(totals);
  for (const PathTotals& path : totals) {
    const double mean = path.count == 0 ? 0 : double(path.total.count()) / double(path.count) / 1000;
    page += fmt::format("{:>10} {:>8} {:>12.1f} {:>12.0f} {:>12.0f}  {}\n", path.count, path.errors, mean,
                        percentile_seconds(path, 0.5) * 1e6, percentile_seconds(path, 0.99) * 1e6,
                        names.at(path.path));
  }
  return page;
}

std::string render_events_json(const Recorder& recorder, size_t at_most) {
  nlohmann::json events = nlohmann::json::array();
  for (const Event& event : recorder.recent_events(at_most)) {
    nlohmann::json inputs = nlohmann::json::object(), outputs = nlohmann::json::object();
    for (size_t i = 0; i < event.input_count; ++i)
      inputs[std::string(event.site->inputs[i])] = event.inputs[i];
    for (size_t i = 0; i < kMaxOutputs; ++i)
      if (event.output_mask & (1u << i)) outputs[std::string(event.site->outputs[i])] = event.outputs[i];
    events.push_back({{"module", std::string(event.site->name)},
                      {"trace", fmt::format("{:016x}", event.trace_id)},
                      {"span", fmt::format("{:016x}", event.span_id)},
                      {"parent", fmt::format("{:016x}", event.parent_span_id)},
                      {"entered_ns", event.entered.time_since_epoch().count()},
                      {"duration_ns", event.duration.count()},
                      {"self_ns", event.self.count()},
                      {"inputs", inputs},
                      {"outputs", outputs},
                      {"code", std::string(code_name(event.code))}});
  }
  return events.dump();
}

std::string render_live(const Recorder& recorder) {
  struct Line {
    int64_t entered;
    std::string text;
  };
  std::vector<Line> lines;
  const LiveWork& live = recorder.live();
  const int64_t now = recorder.now().time_since_epoch().count();
  LiveRecord record;
  for (uint32_t slot = 1; slot < live.records().slots(); ++slot) {
    if (!live.records().read(slot, record)) continue;
    const auto wait = static_cast<proto::WaitKind>(record.wait);
    lines.push_back(
        {record.entered_ns,
         fmt::format("{:>10.3f} {:>5} {:016x} {} {} {}:{} {}\n", double(now - record.entered_ns) * 1e-9,
                     record.task, record.trace_id, record.site != nullptr ? record.site->name : "wait",
                     record.wait != runtime::WaitKind::kNone ? proto::WaitKind_Name(wait) : "",
                     short_file(record.where.file_name()), record.where.line(),
                     live.targets().name_of(record.target))});
  }
  std::ranges::sort(lines, {}, &Line::entered);
  std::string page =
      fmt::format("{:>10} {:>5} {:<16} {}\n", "seconds", "task", "trace", "region, wait, place, target");
  for (const Line& line : lines)
    page += line.text;
  return page;
}

std::map<std::string_view, uint64_t> by_name(const std::unordered_map<const Site*, uint64_t>& by_site) {
  std::map<std::string_view, uint64_t> out;
  for (const auto& [site, count] : by_site)
    out[site->name] += count;
  return out;
}

/// "region=executions", with blanks between.
void append_line(std::string& lines, const std::map<std::string_view, uint64_t>& counts) {
  bool first = true;
  for (const auto& [name, count] : counts)
    fmt::format_to(std::back_inserter(lines), "{}{}={}", std::exchange(first, false) ? "" : " ", name, count);
  lines += '\n';
}

}  // namespace

void add_pages(http::HttpServer& http, metrics::Metrics& metrics, const Recorder& recorder) {
  metrics.add(std::make_shared<RecorderCollectable>(recorder));
  metrics.sample_regions([&recorder](std::string& lines) {
    append_line(lines, open_regions(recorder));
    append_line(lines, ended_regions(recorder));
  });
  http.handle("/debug/paths",
              [&recorder](std::string_view) { return http::Response{.body = render_paths(recorder)}; });
  http.handle("/debug/events", [&recorder](std::string_view) {
    return http::Response{.content_type = "application/json",
                          .body = render_events_json(recorder, kEventsShown)};
  });
  http.handle("/debug/trace", [&recorder](std::string_view query) {
    // WallTime is read here, in a page of a daemon, and nowhere else: spans carry the time of the process's clock.
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    const int64_t difference =
        std::chrono::duration_cast<Duration>(wall).count() - recorder.now().time_since_epoch().count();
    return http::Response{.content_type = "application/json",
                          .body = trace_as_otlp(recorder, trace_of_query(query), difference)};
  });
  http.handle("/debug/live",
              [&recorder](std::string_view) { return http::Response{.body = render_live(recorder)}; });
}

void add_loop_lag(metrics::Metrics& metrics, std::function<Duration()> lag) {
  metrics.gauge("kintsugi_loop_lag_seconds", "How long the event loop lately took to come to what was ready.",
                {}, [lag = std::move(lag)] { return to_seconds(lag()); });
}

std::map<std::string_view, uint64_t> open_regions(const Recorder& recorder) {
  // A region has the same site whenever it is entered: names are compared only once for each.
  std::unordered_map<const Site*, uint64_t> by_site;
  recorder.live().records().for_each_open_site([&](const Site& site) { ++by_site[&site]; });
  return by_name(by_site);
}

std::map<std::string_view, uint64_t> ended_regions(const Recorder& recorder) {
  return by_name(recorder.ended());
}

uint64_t trace_of_query(std::string_view query) {
  const size_t at = query.find("id=");
  if (at == std::string_view::npos) return 0;
  std::string_view id = query.substr(at + 3);
  id = id.substr(0, id.find('&'));
  if (id.size() > 16) id.remove_prefix(id.size() - 16);  // a W3C id: its last 16 digits are the trace id
  uint64_t trace = 0;
  const auto parsed = std::from_chars(id.data(), id.data() + id.size(), trace, 16);
  return parsed.ec == std::errc() && parsed.ptr == id.data() + id.size() ? trace : 0;
}

std::string trace_as_otlp(const Recorder& recorder, uint64_t trace_id, int64_t wall_minus_clock_ns) {
  std::vector<Event> events = recorder.recent_events(SIZE_MAX);
  if (trace_id != 0) std::erase_if(events, [&](const Event& event) { return event.trace_id != trace_id; });
  if (events.size() > kEventsShown) events.resize(kEventsShown);
  return otlp_request(events, {}, wall_minus_clock_ns);
}

}  // namespace kintsugi::sight
