#include "monitoring/metrics/orion/orion.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "common/base/statistics.h"
#include "monitoring/metrics/orion/beside_peers.h"
#include "monitoring/metrics/orion/rarity.h"
#include "monitoring/metrics/trace/coarser.h"

namespace kintsugi::orion {

using metric_trace::Series;

namespace {

/// A window of `now`, compared with healthy windows of its size.
struct Compared {
  const HealthyWindows* healthy = nullptr;
  size_t begin = 0;
  Deviations deviations;
  double excess = 0;
};

std::vector<size_t> sizes_for(const Series& now) {
  std::vector<size_t> out;
  for (const size_t size : kSizes)
    if (now.rows() >= 2 * size) out.push_back(size);
  if (out.empty()) out.push_back(std::max(now.rows() / 4, kShortestWindow));
  return out;
}

double mean_of_rows(const Series& series, size_t column, size_t begin, size_t end) {
  std::vector<double> known;
  for (size_t row = begin; row < end; ++row)
    if (const double value = series.values(static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(column));
        std::isfinite(value))
      known.push_back(value);
  return mean_of(known);
}

std::vector<OddMetric> metrics_of(const std::vector<Compared>& windows, const Series& healthy,
                                  const Series& now) {
  const Costs costs(healthy, now);
  std::map<size_t, OddMetric> metrics;  // by column
  for (const Compared& window : windows) {
    const std::vector<size_t>& columns = window.healthy->columns();
    const Deviations& deviations = window.deviations;
    const std::vector<double> scores = scores_of(deviations.pairs, deviations.sizes);
    for (size_t live = 0; live < columns.size(); ++live)
      metrics[columns[live]].score += scores[live] / static_cast<double>(windows.size());
  }
  std::vector<OddMetric> out;
  for (auto& [column, metric] : metrics) {
    metric.name = healthy.names[column];
    metric.score = std::sqrt(metric.score);
    for (const metric_trace::Live& live : windows.front().healthy->preparation().live)
      if (live.column == column)
        for (const size_t alias : live.aliases)
          metric.aliases.push_back(healthy.names[alias]);
    metric.healthy = mean_of_rows(healthy, column, 0, healthy.rows());
    for (const Compared& window : windows)
      metric.now += mean_of_rows(now, column, window.begin, window.begin + window.healthy->size()) /
                    static_cast<double>(windows.size());
    metric.dearer = costs.dearer(column, kNamed);
    out.push_back(std::move(metric));
  }
  std::ranges::stable_sort(out, std::greater(), &OddMetric::score);
  return out;
}

/// Names of metrics that had one value on the healthy trace, and another one in all of the oddest window.
std::vector<std::string> moved_in(const Compared& window, const Series& healthy) {
  std::vector<std::string> out;
  const std::vector<metric_trace::Watched>& watched = window.healthy->preparation().watched;
  for (size_t i = 0; i < watched.size(); ++i)
    if (window.deviations.moved[i]) out.push_back(healthy.names[watched[i].column]);
  return out;
}

void compare_loads(const HealthyWindows& model, const Series& healthy, const Series& now, Finding& finding) {
  if (model.load().columns().empty()) return;
  const size_t column = model.load().columns().front();
  const double before = mean_of_rows(healthy, column, 0, healthy.rows());
  if (before > 0) finding.load = mean_of_rows(now, column, 0, now.rows()) / before;
  const Eigen::VectorXd loads = model.load().of(healthy);
  std::vector<double> known;
  for (const double load : loads)
    if (std::isfinite(load)) known.push_back(load);
  std::vector<double> present;
  for (const double load : model.load().of(now))
    if (std::isfinite(load)) present.push_back(load);
  if (known.empty() || present.empty()) return;
  const double median = median_of(present);
  finding.foreign_load = median < quantile_of(known, 0.01) || median > quantile_of(known, 0.99);
}

/// Who a finding is compared with, itself included.
struct Reference {
  std::vector<const Shifts*> processes;
  bool of_role = false;  ///< all of them have its role
};

Reference reference_of(const std::vector<Finding>& findings, size_t which) {
  const std::string role = metric_trace::role_of(findings[which].source);
  std::vector<const Shifts*> of_role, all;
  for (const Finding& each : findings) {
    all.push_back(&each.shifts);
    if (metric_trace::role_of(each.source) == role) of_role.push_back(&each.shifts);
  }
  if (of_role.size() > kFewestPeers) return {.processes = std::move(of_role), .of_role = true};
  return {.processes = std::move(all)};
}

/// By the processes that are compared: all of them share what is known of their metrics.
using Groups = std::map<std::vector<const Shifts*>, Group>;

/// Returns the rarity that healthy processes still show. A rarer shift is beyond them.
double rarest_healthy(const Finding& finding) {
  const Shifts& shifts = finding.shifts;
  return most_of_normal(2 * finding.processes * shifts.metrics.size() * shifts.middles_ns.size());
}

/// The kernel has one value of it for all processes of the machine: where they differ, they were not asked at the same
/// instant.
constexpr std::string_view kOfTheMachine = "tcp_mem";

/// Relations of metrics accuse nobody who has peers: in healthy recordings they differ from one time to another.
void compare_levels(Finding& finding, Group& group) {
  const Shifts& own = finding.shifts;
  finding.peers = group.size() - 1;
  finding.excess = 0;
  double farthest = 0;
  for (OddMetric& metric : finding.metrics) {
    metric.score = 0;
    const std::string name = common_name(metric.name, finding.source);
    const MetricShifts* const shifts = own.find(name);
    if (shifts == nullptr || metric.name == kOfTheMachine) continue;
    const double most = kShiftMargin * std::max(rarest_healthy(finding), group.rarest_when_healthy(name));
    const Shift shift = group.shift_of(own, name);
    metric.score = shift.size;
    metric.odd = shift.rarity > most;
    metric.healthy = shifts->mean;
    metric.now = shifts->mean + shift.moved;
    finding.excess = std::max(finding.excess, shift.rarity / most);
    if (!metric.odd || metric.score <= farthest) continue;
    farthest = metric.score;
    finding.from_ns = shift.middle_ns - own.window_ns / 2;
    finding.to_ns = finding.from_ns + own.window_ns;
  }
  std::ranges::stable_sort(finding.metrics, std::greater(),
                           [](const OddMetric& metric) { return std::pair(metric.odd, metric.score); });
}

/// The metric left its own healthy windows in the direction of a limit that it still goes towards.
bool runs_out(const Finding& finding, const std::string& metric) {
  const MetricShifts* const shifts = finding.shifts.find(common_name(metric, finding.source));
  if (shifts == nullptr || !std::isfinite(shifts->goes_to)) return false;
  const Shift shift = Group({&finding.shifts}).shift_of(finding.shifts, shifts->name);
  return shift.rarity > rarest_healthy(finding) && shift.moved * (shifts->goes_to - shifts->mean) > 0;
}

void note_what_runs_out(Finding& finding) {
  for (OddMetric& metric : finding.metrics)
    metric.runs_out = runs_out(finding, metric.name) ||
                      std::ranges::any_of(metric.aliases,
                                          [&](const std::string& alias) { return runs_out(finding, alias); });
  std::ranges::stable_sort(finding.metrics, std::greater(), &OddMetric::runs_out);
}

/// The dearer regions of the first metric whose growth they explain by half; none: there is no such metric.
std::vector<DearerRegion> dearer_of(const std::vector<OddMetric>& metrics) {
  const auto found = std::ranges::find_if(metrics, explain_half, &OddMetric::dearer);
  return found == metrics.end() ? std::vector<DearerRegion>() : found->dearer;
}

/// What is healthy for one of a role is healthy for the others.
void note_what_is_stuck(std::vector<Finding>& findings) {
  std::map<std::string, std::vector<const Stretches*>> healthy;  // by role
  for (const Finding& finding : findings)
    healthy[metric_trace::role_of(finding.source)].push_back(&finding.open_before);
  for (Finding& finding : findings) {
    finding.stuck =
        stuck_regions(finding.open_now, healthy.at(metric_trace::role_of(finding.source)), finding.period);
    finding.stuck.resize(std::min(finding.stuck.size(), kNamed));
    for (const StuckRegion& region : finding.stuck)
      finding.excess = std::max(finding.excess, region.excess);
  }
}

void compare_with_peers(std::vector<Finding>& findings) {
  Groups groups;
  for (size_t i = 0; i < findings.size(); ++i) {
    const Reference reference = reference_of(findings, i);
    // Whoever is judged by itself is who was asked for: there is nobody else whom it could be told from.
    findings[i].alone = !reference.of_role && findings.size() > 1;
    if (reference.processes.size() > kFewestPeers)
      compare_levels(findings[i], groups.try_emplace(reference.processes, reference.processes).first->second);
    if (findings[i].alone) note_what_runs_out(findings[i]);
  }
  note_what_is_stuck(findings);
  for (Finding& finding : findings) {
    finding.metrics.resize(std::min(finding.metrics.size(), kNamed));
    finding.look_at = where_to_look(finding.stuck, dearer_of(finding.metrics), finding.regions);
  }
}

bool accuses(const Finding& finding) {
  return !finding.alone || !finding.stuck.empty() ||
         std::ranges::any_of(finding.metrics, &OddMetric::runs_out);
}

/// What stands still comes first, then a metric that is odd beside its peers, and among these the farthest off.
std::tuple<double, bool, double> order_of(const Finding& finding) {
  double stands_still = 0;
  for (const StuckRegion& region : finding.stuck)
    stands_still = std::max(stands_still, region.seconds);
  const bool odd = !finding.metrics.empty() && finding.metrics.front().odd;
  return {stands_still, odd, odd ? finding.metrics.front().score : finding.excess};
}

}  // namespace

Localisation compared_with_peers(std::vector<Finding> findings) {
  Localisation out;
  compare_with_peers(findings);
  for (Finding& finding : findings) {
    std::vector<Finding>& reported = accuses(finding) ? out.odd : out.also_changed;
    (finding.excess > 1 ? reported : out.healthy).push_back(std::move(finding));
  }
  std::ranges::stable_sort(out.odd, std::greater(), order_of);
  std::ranges::stable_sort(out.also_changed, std::greater(), order_of);
  std::ranges::stable_sort(out.healthy, std::greater(), &Finding::excess);
  return out;
}

Result<Finding> compare(const Series& healthy, const Series& raw_now, size_t processes) {
  const Series now = metric_trace::with_columns(raw_now, healthy.names);
  std::vector<HealthyWindows> models;
  Status why(Code::kNotFound,
             "not enough data because there are fewer than " + std::to_string(2 * kShortestWindow) + " rows");
  if (now.rows() >= 2 * kShortestWindow)
    for (const size_t size : sizes_for(now)) {
      Result<HealthyWindows> model = HealthyWindows::learn(healthy, size);
      if (model)
        models.push_back(std::move(*model));
      else
        why = model.error();
    }
  std::vector<Compared> windows;
  Finding out;
  for (const HealthyWindows& model : models) {
    const std::vector<size_t> begins =
        metric_trace::window_begins(now.segments, model.size(), std::max<size_t>(model.size() / 2, 1));
    const Eigen::VectorXd load = model.load().of(now);
    for (const size_t begin : begins) {
      Deviations deviations = model.deviations(now, load, begin);
      const double excess = model.excess(deviations, processes * models.size() * begins.size());
      windows.push_back(
          {.healthy = &model, .begin = begin, .deviations = std::move(deviations), .excess = excess});
    }
    out.windows += begins.size();
    out.healthy_windows +=
        metric_trace::window_begins(healthy.segments, model.size(), model.size() / 2).size();
  }
  if (models.empty()) return why;
  if (windows.empty())
    return Status(Code::kNotFound, "not enough data because no life of the process has " +
                                       std::to_string(models.front().size()) + " rows");
  std::ranges::stable_sort(windows, [](auto& a, auto& b) { return a.excess > b.excess; });
  windows.resize(std::min(windows.size(), kNamed));
  const Compared& oddest = windows.front();
  out.source = now.source;
  out.processes = processes;
  out.excess = oddest.excess;
  out.from_ns = now.t_ns[oddest.begin];
  out.to_ns = now.t_ns[oddest.begin + oddest.healthy->size() - 1];
  out.metrics = metrics_of(windows, healthy, now);
  out.regions = regions_open_more(healthy, now);
  out.open_before = stretches_of(healthy);
  out.open_now = stretches_of(now);
  out.period = now.period;
  out.shifts = shifts_of(healthy, now, oddest.healthy->preparation(), rows_of_shifts(now));
  out.moved = moved_in(oddest, healthy);
  compare_loads(*oddest.healthy, healthy, now, out);
  return out;
}

Localisation localise(const metric_trace::Trace& healthy, const metric_trace::Trace& now) {
  std::vector<NotJudged> not_judged;
  std::vector<Finding> findings;
  for (uint32_t i = 0; i < now.header.sources.size(); ++i) {
    const std::string& name = now.header.sources[i].name;
    const auto before = metric_trace::find_source(healthy.header, name);
    if (!before) {
      not_judged.push_back({name, "not enough data because it is not in the healthy trace"});
      continue;
    }
    Result<Finding> finding = compare(metric_trace::series_of(healthy, *before),
                                      metric_trace::series_of(now, i), now.header.sources.size());
    if (!finding)
      not_judged.push_back({name, finding.error().message()});
    else
      findings.push_back(std::move(*finding));
  }
  Localisation out = compared_with_peers(std::move(findings));
  out.not_judged = std::move(not_judged);
  return out;
}

}  // namespace kintsugi::orion
