#include "monitoring/sight/pages.h"

#include <limits>

#include <nlohmann/json.hpp>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

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
    for (const PathTotals& path : recorder_.totals()) {
      prometheus::ClientMetric histogram;
      histogram.label = {{"module", std::string(path.site->name)}, {"path", recorder_.path_name(path.path)}};
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
    return {std::move(durations), std::move(errors)};
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
  for (const PathTotals& path : recorder.totals()) {
    const double mean = path.count == 0 ? 0 : double(path.total.count()) / double(path.count) / 1000;
    page += fmt::format("{:>10} {:>8} {:>12.1f} {:>12.0f} {:>12.0f}  {}\n", path.count, path.errors, mean,
                        percentile_seconds(path, 0.5) * 1e6, percentile_seconds(path, 0.99) * 1e6,
                        recorder.path_name(path.path));
  }
  return page;
}

std::string render_events_json(const Recorder& recorder, size_t at_most) {
  nlohmann::json events = nlohmann::json::array();
  for (const Event& event : recorder.recent_events(at_most)) {
    nlohmann::json inputs = nlohmann::json::object(), outputs = nlohmann::json::object();
    for (size_t i = 0; i < event.input_count; ++i)
      inputs[std::string(event.site->inputs[i])] = event.inputs[i];
    for (size_t i = 0; i < kMaxFeatures; ++i)
      if (event.output_mask & (1u << i)) outputs[std::string(event.site->outputs[i])] = event.outputs[i];
    events.push_back({{"module", std::string(event.site->name)},
                      {"trace", fmt::format("{:016x}", event.trace_id)},
                      {"span", fmt::format("{:016x}", event.span_id)},
                      {"parent", fmt::format("{:016x}", event.parent_span_id)},
                      {"entered_ns", event.entered.time_since_epoch().count()},
                      {"duration_ns", event.duration.count()},
                      {"inputs", inputs},
                      {"outputs", outputs},
                      {"code", std::string(code_name(event.code))}});
  }
  return events.dump();
}

}  // namespace

void add_pages(http::HttpServer& http, metrics::Metrics& metrics, const Recorder& recorder) {
  metrics.add(std::make_shared<RecorderCollectable>(recorder));
  http.handle("/debug/paths",
              [&recorder](std::string_view) { return http::Response{.body = render_paths(recorder)}; });
  http.handle("/debug/events", [&recorder](std::string_view) {
    return http::Response{.content_type = "application/json",
                          .body = render_events_json(recorder, kEventsShown)};
  });
}

}  // namespace kintsugi::sight
