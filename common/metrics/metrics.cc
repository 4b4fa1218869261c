#include "common/metrics/metrics.h"

#include <fstream>
#include <sstream>

#include <dirent.h>
#include <fmt/format.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

namespace kintsugi::metrics {

namespace {

struct Value {
  std::string help;
  prometheus::MetricType type;
  std::vector<std::pair<Labels, std::function<double()>>> series;
};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return double(resident) * double(sysconf(_SC_PAGESIZE));
}

double open_fds() {
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  int count = -3;  // ".", ".." and the directory itself
  while (readdir(directory) != nullptr)
    ++count;
  closedir(directory);
  return count;
}

bool is_of_process(std::string_view name) {
  return name.starts_with("process_");
}

}  // namespace

struct Metrics::State {
  std::map<std::string, Value> values;
  /// Name, help text and labels of each info metric.
  std::vector<std::tuple<std::string, std::string, std::function<Labels()>>> infos;
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables;
  std::vector<std::function<void()>> preparations;
  std::function<void(std::string&)> regions;

  void add(const std::string& name, const std::string& help, prometheus::MetricType type, Labels labels,
           std::function<double()> read) {
    Value& value = values[name];
    value.help = help;
    value.type = type;
    value.series.emplace_back(std::move(labels), std::move(read));
  }
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

void Metrics::gauge(const std::string& name, const std::string& help, Labels labels,
                    std::function<double()> read) {
  state_->add(name, help, prometheus::MetricType::Gauge, std::move(labels), std::move(read));
}

void Metrics::counter(const std::string& name, const std::string& help, Labels labels,
                      std::function<double()> read) {
  state_->add(name, help, prometheus::MetricType::Counter, std::move(labels), std::move(read));
}

void Metrics::info(const std::string& name, const std::string& help, std::function<Labels()> read) {
  state_->infos.emplace_back(name, help, std::move(read));
}

void Metrics::add(std::shared_ptr<prometheus::Collectable> collectable) {
  state_->collectables.push_back(std::move(collectable));
}

void Metrics::before_reading(std::function<void()> prepare) {
  state_->preparations.push_back(std::move(prepare));
}

void Metrics::sample_regions(std::function<void(std::string&)> append) {
  state_->regions = std::move(append);
}

void Metrics::add_process_metrics() {
  counter("process_cpu_seconds_total", "User and system CPU time spent.", {}, cpu_seconds);
  gauge("process_resident_memory_bytes", "Resident memory.", {}, resident_bytes);
  gauge("process_open_fds", "Open file descriptors.", {}, open_fds);
}

std::string Metrics::sample_names() const {
  std::string names;
  for (const auto& [name, value] : state_->values) {
    if (is_of_process(name)) continue;
    for (const auto& [labels, read] : value.series) {
      std::string text;
      for (const auto& [key, label] : labels)
        text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", key, label);
      names += fmt::format("{} {}{}\n", value.type == prometheus::MetricType::Counter ? 'c' : 'g', name,
                           text.empty() ? text : "{" + text + "}");
    }
  }
  return names;
}

std::string Metrics::sample_values() const {
  for (const auto& prepare : state_->preparations)
    prepare();
  std::string values;
  for (const auto& [name, value] : state_->values) {
    if (is_of_process(name)) continue;
    for (const auto& [labels, read] : value.series)
      fmt::format_to(std::back_inserter(values), "{}{}", values.empty() ? "" : " ", read());
  }
  values += '\n';
  if (state_->regions) state_->regions(values);
  return values;
}

std::function<std::string()> Metrics::read() const {
  for (const auto& prepare : state_->preparations)
    prepare();
  std::vector<prometheus::MetricFamily> families;
  for (const auto& [name, value] : state_->values) {
    prometheus::MetricFamily family{name, value.help, value.type, {}};
    for (const auto& [labels, read] : value.series) {
      prometheus::ClientMetric metric;
      for (const auto& [key, label] : labels)
        metric.label.push_back({key, label});
      if (value.type == prometheus::MetricType::Counter)
        metric.counter.value = read();
      else
        metric.gauge.value = read();
      family.metric.push_back(std::move(metric));
    }
    families.push_back(std::move(family));
  }
  for (const auto& [name, help, read] : state_->infos) {
    prometheus::ClientMetric metric;
    for (const auto& [key, label] : read())
      metric.label.push_back({key, label});
    metric.gauge.value = 1;
    families.push_back({name, help, prometheus::MetricType::Gauge, {std::move(metric)}});
  }
  for (const auto& collectable : state_->collectables)
    for (auto& family : collectable->Collect())
      families.push_back(std::move(family));
  return [families = std::move(families)] {
    std::ostringstream out;
    prometheus::TextSerializer{}.Serialize(out, families);
    return out.str();
  };
}

}  // namespace kintsugi::metrics
