#include "monitoring/metrics_command.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "monitoring/metrics/trace/csv.h"
#include "monitoring/metrics/trace/files.h"
#include "monitoring/metrics/trace/selection.h"

namespace kintsugi::monitoring {
namespace {

namespace fs = std::filesystem;

struct MetricsArguments {
  bool export_rows = false;
  metric_trace::Selection selection;
  double since_s = 0;  ///< 0: all
  std::string path;
};

std::optional<double> positive(const std::string& text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !(value > 0)) return {};
  return value;
}

std::optional<MetricsArguments> parse(const std::vector<std::string>& words) {
  MetricsArguments arguments;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool takes_value = word == "--server" || word == "--name" || word == "--since";
    if (takes_value && i + 1 == words.size()) return {};
    if (word == "--export") {
      arguments.export_rows = true;
    } else if (word == "--server") {
      arguments.selection.source = words[++i];
    } else if (word == "--name") {
      arguments.selection.metrics.push_back(words[++i]);
    } else if (word == "--since") {
      const auto since = positive(words[++i]);
      if (!since) return {};
      arguments.since_s = *since;
    } else if (word.starts_with("--") || !arguments.path.empty()) {
      return {};
    } else {
      arguments.path = word;
    }
  }
  if (arguments.path.empty()) return {};
  return arguments;
}

/// Gives `use` the selected part of what is recorded at the path, file by file, so that not all of it is in memory.
Status read(const MetricsArguments& arguments, const std::function<void(metric_trace::Trace)>& use) {
  std::error_code error;
  const fs::path inside = fs::path(arguments.path) / "metrics";
  const std::string path = fs::is_directory(inside, error) ? inside.string() : arguments.path;
  const auto since_ns =
      arguments.since_s == 0
          ? INT64_MIN
          : static_cast<int64_t>((static_cast<double>(std::time(nullptr)) - arguments.since_s) * 1e9);
  bool found = false;
  const auto add = [&](const metric_trace::Trace& part) {
    metric_trace::Trace selected = metric_trace::select(part, arguments.selection, since_ns);
    if (selected.header.metrics.empty()) return;
    found = true;
    use(std::move(selected));
  };
  if (fs::is_directory(path, error)) {
    KINTSUGI_TRY(metric_trace::for_each_part(path, since_ns, add));
  } else {
    KINTSUGI_ASSIGN(const metric_trace::Trace trace, metric_trace::read_trace(path));
    add(trace);
  }
  return found ? Status() : Status(Code::kNotFound, fmt::format("{}: nothing of that is recorded", path));
}

/// The rows as one table.
Status print_table(const MetricsArguments& arguments) {
  std::vector<metric_trace::Trace> parts;
  KINTSUGI_TRY(read(arguments, [&](metric_trace::Trace part) { parts.push_back(std::move(part)); }));
  // Rows of another period cannot stand in one table: only the last ones count.
  const auto period = parts.back().header.period;
  std::erase_if(parts, [&](const auto& part) { return part.header.period != period; });
  const std::string table = metric_trace::to_csv(metric_trace::joined(std::move(parts)));
  if (std::fwrite(table.data(), 1, table.size(), stdout) != table.size() || std::fflush(stdout) != 0)
    return {Code::kIoError, "the table could not be written"};
  return {};
}

std::string time_text(int64_t t_ns) {
  const std::time_t seconds = t_ns / 1'000'000'000;
  std::tm fields{};
  ::gmtime_r(&seconds, &fields);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &fields);
  return text.data();
}

/// What there is, part by part.
class Inventory {
 public:
  void add(const metric_trace::Trace& part) {
    for (const metric_trace::Metric& metric : part.header.metrics)
      metrics_[part.header.sources[metric.source].name].emplace(metric.name, metric.kind);
    rows_ += part.rows.size();
    if (part.rows.empty()) return;
    if (!first_ns_) first_ns_ = part.rows.front().t_ns;
    last_ns_ = part.rows.back().t_ns;
  }
  void print() const {
    if (first_ns_) fmt::print("{} rows from {} to {}\n", rows_, time_text(*first_ns_), time_text(last_ns_));
    for (const auto& [source, metrics] : metrics_) {
      fmt::print("\n{}\n", source);
      for (const auto& [name, kind] : metrics)
        fmt::print("  {} {}\n", kind == metric_trace::Kind::kCounter ? "counter" : "gauge  ", name);
    }
  }

 private:
  std::map<std::string, std::map<std::string, metric_trace::Kind>> metrics_;  ///< by source and name
  size_t rows_ = 0;
  std::optional<int64_t> first_ns_;
  int64_t last_ns_ = 0;
};

}  // namespace

int show_metrics(const std::vector<std::string>& words) {
  const auto arguments = parse(words);
  if (!arguments) {
    std::fprintf(
        stderr,
        "usage: kintsugi-monitor metrics [--export] [--server NAME] [--name METRIC]... [--since SECONDS] "
        "PATH\n");
    return 2;
  }
  Status status;
  if (arguments->export_rows) {
    status = print_table(*arguments);
  } else {
    Inventory inventory;
    status = read(*arguments, [&](const metric_trace::Trace& part) { inventory.add(part); });
    if (status.ok()) inventory.print();
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "kintsugi-monitor: %s\n", status.to_string().c_str());
  return 1;
}

}  // namespace kintsugi::monitoring
