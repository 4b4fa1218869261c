#include "monitoring/metrics/orion/beside_peers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/statistics.h"
#include "monitoring/metrics/orion/rarity.h"

namespace kintsugi::orion {

namespace {

/// A value of a window, by the time of its middle.
struct Point {
  int64_t t_ns = 0;
  double value = 0;
};

/// A metric of one process: windows that say what is usual, and those that are judged, both sorted by time.
struct Member {
  std::vector<Point> usual, judged;
  double least_deviation = 0;  ///< what it is taken to vary by, if it varies by less
  int64_t window_ns = 0;
};

/// A variance that was learnt from few values, and how many are free to differ.
struct Variance {
  double value = 0, degrees = 1;
};

/// One that rules the others brings its own degrees of freedom and no more (Welch 1947).
Variance sum_of(const std::vector<Variance>& variances) {
  double sum = 0, squares = 0;
  for (const Variance& each : variances) {
    sum += each.value;
    squares += each.value * each.value / each.degrees;
  }
  return {.value = sum, .degrees = squares > 0 ? sum * sum / squares : 1};
}

/// Returns the value of the window nearest to that time; none: no window is near.
std::optional<double> at(const std::vector<Point>& points, int64_t t_ns, int64_t window_ns) {
  const auto next = std::ranges::lower_bound(points, t_ns, {}, &Point::t_ns);
  std::optional<double> out;
  int64_t nearest_ns = window_ns;
  const auto look_at = [&](const Point& point) {
    const int64_t apart_ns = std::abs(point.t_ns - t_ns);
    if (apart_ns > nearest_ns) return;
    nearest_ns = apart_ns;
    out = point.value;
  };
  if (next != points.begin()) look_at(*std::prev(next));
  if (next != points.end()) look_at(*next);
  return out;
}

std::vector<double> others_at(const std::vector<Member>& all, std::vector<Point> Member::* side,
                              const Member& own, int64_t t_ns) {
  std::vector<double> out;
  for (const Member& each : all)
    if (&each != &own)
      if (const auto theirs = at(each.*side, t_ns, own.window_ns)) out.push_back(*theirs);
  return out;
}

/// How far a metric usually is from the median of the others; without enough others: from its own mean.
Variance usual_variance(const std::vector<Member>& all, const Member& own) {
  std::vector<double> apart;
  for (const Point& point : own.usual) {
    const std::vector<double> others = others_at(all, &Member::usual, own, point.t_ns);
    if (all.size() <= kFewestPeers)
      apart.push_back(point.value);
    else if (others.size() >= kFewestPeers)
      apart.push_back(point.value - median_of(others));
  }
  const double deviation = apart.size() < 2 ? 0 : deviation_of(apart);
  return {.value = std::pow(std::max(deviation, own.least_deviation), 2),
          .degrees = std::max(independent_of(apart.size(), resemblance_of(apart)) - 1, 1.0)};
}

struct WindowShift {
  double size = 0, rarity = 0, moved = 0;
  int64_t middle_ns = 0;
};

/// None: too few others are known at that time. What all did together then cannot be taken out, and how far the metric usually is
/// from its peers does not say how far it may go by itself.
std::optional<WindowShift> shift_in(const std::vector<Member>& all, const Member& own, const Variance& usual,
                                    const Point& judged) {
  const auto [t_ns, moved] = judged;
  WindowShift out{.moved = moved, .middle_ns = t_ns};
  double off = moved;
  Variance variance = usual;
  if (all.size() > kFewestPeers) {
    const std::vector<double> others = others_at(all, &Member::judged, own, t_ns);
    if (others.size() < kFewestPeers) return std::nullopt;
    const double median = median_of(others);
    off -= median;
    double apart = 0;
    for (const double theirs : others)
      apart += (theirs - median) * (theirs - median) / static_cast<double>(others.size());
    if (apart > usual.value)
      variance =
          sum_of({usual, {.value = apart - usual.value, .degrees = static_cast<double>(others.size() - 1)}});
  }
  out.size = std::abs(off) / std::sqrt(variance.value);
  out.rarity = as_normal(out.size, variance.degrees);
  return out;
}

/// By member. Those that have nothing usual are no members.
std::vector<Shift> shifts_among(const std::vector<Member>& all) {
  std::vector<Variance> variances;
  double sum = 0;
  for (const Member& each : all) {
    variances.push_back(usual_variance(all, each));
    sum += variances.back().value;
  }
  const double degrees = sum_of(variances).degrees;
  std::vector<Shift> out(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const Variance usual{.value = std::max(sum / static_cast<double>(all.size()), variances[i].value),
                         .degrees = degrees};
    std::vector<WindowShift> windows;
    for (const Point& judged : all[i].judged)
      if (const auto shift = shift_in(all, all[i], usual, judged)) windows.push_back(*shift);
    out[i].beside_peers = all.size() > kFewestPeers && !windows.empty();
    std::ranges::stable_sort(windows, std::greater(), &WindowShift::size);
    windows.resize(std::min(windows.size(), kShiftedWindows));
    for (const WindowShift& each : windows) {
      const auto share = 1 / static_cast<double>(windows.size());
      out[i].size += share * each.size;
      out[i].rarity += share * each.rarity;
      out[i].moved += share * each.moved;
      out[i].middle_ns = windows.front().middle_ns;
    }
  }
  return out;
}

std::vector<Point> points_of(const std::vector<int64_t>& middles_ns, const std::vector<double>& values) {
  std::vector<Point> out;
  for (size_t i = 0; i < values.size(); ++i)
    if (std::isfinite(values[i])) out.push_back({middles_ns[i], values[i]});
  std::ranges::stable_sort(out, {}, &Point::t_ns);  // the clock may have stepped back
  return out;
}

struct Time {
  int64_t begin_ns = 0, end_ns = 0;
};

/// Judges that part of the healthy time by the rest of it. None: nothing is left of either.
std::optional<Member> left_out(const Member& whole, const Time& part) {
  Member out{
      .usual = {}, .judged = {}, .least_deviation = whole.least_deviation, .window_ns = whole.window_ns};
  double sum = 0;
  for (const Point& point : whole.usual) {
    if (point.t_ns >= part.begin_ns && point.t_ns < part.end_ns)
      out.judged.push_back(point);
    else if (point.t_ns < part.begin_ns - whole.window_ns || point.t_ns >= part.end_ns + whole.window_ns)
      out.usual.push_back(point);
  }
  if (out.usual.size() < 2 || out.judged.empty()) return std::nullopt;
  for (const Point& point : out.usual)
    sum += point.value;
  const double mean = sum / static_cast<double>(out.usual.size());
  for (std::vector<Point>* side : {&out.usual, &out.judged})
    for (Point& point : *side)
      point.value -= mean;
  return out;
}

/// The increase of a counter of seconds is a share of time.
double least_deviation_of(const MetricShifts& metric) {
  const size_t labels = metric.name.find('{');
  const bool is_share = std::string_view(metric.name).substr(0, labels).ends_with("_seconds_total");
  return std::max(1e-3 * std::abs(metric.mean) + 1e-12, is_share ? kLeastShareOfTime : 0.0);
}

Member member_of(const Shifts& process, const MetricShifts& metric) {
  return {.usual = points_of(process.healthy_middles_ns, metric.usual),
          .judged = points_of(process.middles_ns, metric.moved),
          .least_deviation = least_deviation_of(metric),
          .window_ns = process.window_ns};
}

double rarest_in_parts(const std::vector<Member>& whole) {
  Time all{INT64_MAX, INT64_MIN};
  for (const Member& each : whole)
    for (const Point& point : each.usual)
      all = {std::min(all.begin_ns, point.t_ns), std::max(all.end_ns, point.t_ns + 1)};
  if (all.begin_ns > all.end_ns) return 0;
  double rarest = 0;
  for (size_t part = 0; part < kHealthyParts; ++part) {
    const auto border = [&](size_t number) {
      return all.begin_ns +
             (all.end_ns - all.begin_ns) / static_cast<int64_t>(kHealthyParts) * static_cast<int64_t>(number);
    };
    std::vector<Member> judged;
    for (const Member& each : whole)
      if (auto member =
              left_out(each, {border(part), part + 1 == kHealthyParts ? all.end_ns : border(part + 1)}))
        judged.push_back(std::move(*member));
    if (judged.size() <= kFewestPeers) continue;
    for (const Shift& shift : shifts_among(judged))
      rarest = std::max(rarest, shift.rarity);
  }
  return rarest;
}

/// Those that have a window now are too few to be compared: each is set beside its own healthy windows.
bool too_few(const std::vector<Member>& all) {
  return std::ranges::count_if(all, [](const Member& each) { return !each.judged.empty(); }) <=
         static_cast<std::ptrdiff_t>(kFewestPeers);
}

}  // namespace

const Group::Metric& Group::judged(const std::string& metric) {
  const auto [known, is_new] = judged_.try_emplace(metric);
  if (!is_new) return known->second;
  std::vector<const Shifts*> who;
  std::vector<Member> all;
  for (const Shifts* process : processes_)
    if (const MetricShifts* found = process->find(metric)) {
      who.push_back(process);
      all.push_back(member_of(*process, *found));
    }
  known->second.rarest_when_healthy = rarest_in_parts(all);
  const std::vector<Shift> among = too_few(all) ? std::vector<Shift>() : shifts_among(all);
  for (size_t i = 0; i < all.size(); ++i)
    known->second.shifts[who[i]] = among.empty() ? shifts_among({all[i]}).front() : among[i];
  return known->second;
}

Shift Group::shift_of(const Shifts& own, const std::string& metric) {
  return judged(metric).shifts.at(&own);
}

double Group::rarest_when_healthy(const std::string& metric) {
  return judged(metric).rarest_when_healthy;
}

}  // namespace kintsugi::orion
