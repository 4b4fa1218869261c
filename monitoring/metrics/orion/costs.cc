#include "monitoring/metrics/orion/costs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <Eigen/Cholesky>
#include <boost/math/distributions/fisher_f.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "monitoring/metrics/trace/least_squares.h"

namespace kintsugi::orion {

using metric_trace::Series;

namespace {

/// Counts that correlate as much as this cannot be told apart.
constexpr double kTogether = 0.95;
/// Below this part an execution does not cost more.
constexpr double kLeastPart = 0.05;
/// A cost that exceeds the one before by less than so many standard errors may be noise: among dozens of regions some
/// always go a little with whatever grows.
constexpr double kLeastErrors = 2.5;
/// Executions explain growth by chance with more than this probability: nothing is named.
constexpr double kChance = 1e-3;

void for_each_ended(const Series& series, const auto& use) {
  for (size_t row = 0; row < series.rows(); ++row)
    for (const metric_trace::RegionActivity& each : series.activity[row])
      if (each.ended > 0 && std::isfinite(each.ended))
        use(static_cast<Eigen::Index>(row), series.regions[each.region], static_cast<double>(each.ended));
}

/// How many executions of each of these regions ended in each row.
std::map<std::string, Eigen::VectorXd> ended_by_name(const Series& series,
                                                     const std::vector<std::string>& names) {
  std::map<std::string, Eigen::VectorXd> out;
  for (const std::string& name : names)
    out[name] = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(series.rows()));
  for_each_ended(series, [&](Eigen::Index row, const std::string& name, double ended) {
    if (const auto found = out.find(name); found != out.end()) found->second[row] += ended;
  });
  return out;
}

/// Rows between the first and the last of a life in which something ended. Others may be of an older monitor or daemon,
/// which does not say what ended.
std::vector<bool> telling_rows(const Series& series) {
  std::vector<bool> out(series.rows());
  const auto tells = [&](size_t row) {
    return std::ranges::any_of(series.activity[row], [](const auto& each) { return each.ended > 0; });
  };
  for (const metric_trace::Segment& life : series.segments) {
    size_t begin = life.begin, end = life.end;
    while (begin < end && !tells(begin))
      ++begin;
    while (begin < end && !tells(end - 1))
      --end;
    std::fill(out.begin() + static_cast<ptrdiff_t>(begin), out.begin() + static_cast<ptrdiff_t>(end), true);
  }
  return out;
}

bool go_together(const Eigen::VectorXd& a, const Eigen::VectorXd& b) {
  const Eigen::VectorXd x = a.array() - a.mean(), y = b.array() - b.mean();
  return x.dot(y) >= kTogether * x.norm() * y.norm();
}

/// How much the metric grew since the row before: NaN in the first row of a life, and where it is not known.
Eigen::VectorXd growth_of(const Series& series, size_t column) {
  const auto at = static_cast<Eigen::Index>(column);
  if (series.kinds[column] == metric_trace::Kind::kCounter)
    return series.values.col(at) * std::chrono::duration<double>(series.period).count();
  Eigen::VectorXd out = Eigen::VectorXd::Constant(series.values.rows(), metric_trace::kMissing);
  for (const metric_trace::Segment& segment : series.segments)
    for (size_t row = segment.begin + 1; row < segment.end; ++row) {
      const auto i = static_cast<Eigen::Index>(row);
      out[i] = series.values(i, at) - series.values(i - 1, at);
    }
  return out;
}

/// The squares of the standard errors that the costs would have each by itself, by the squares that all of them leave
/// unexplained in so many rows. Counts of regions that are entered by each other go together, so that none of them may be
/// sure where all together are; those are judged by explains().
Eigen::VectorXd variances_of(const Eigen::MatrixXd& gram, double unexplained, size_t rows) {
  const auto count = static_cast<double>(rows);
  const double of_row = std::max(0.0, unexplained) / std::max(1.0, count - static_cast<double>(gram.cols()));
  // The last column is ones: its products are sums.
  const Eigen::ArrayXd sums = gram.rightCols<1>().array();
  const Eigen::ArrayXd spread = gram.diagonal().array() - sums.square() / std::max(1.0, count);
  return (of_row / spread.max(1e-12)).matrix();
}

/// The executions explain the growth better than time alone does, and not by chance (F test). `squares`: of the growth;
/// `sum`: of the growth.
bool explains(const Eigen::VectorXd& costs, double unexplained, double squares, double sum, size_t rows) {
  const auto costly = static_cast<double>((costs.head(costs.size() - 1).array() > 0).count());
  const double count = static_cast<double>(rows), freedom = count - costly - 1;
  if (costly == 0 || freedom < 1) return false;
  const double by_time = squares - sum * sum / count;
  if (!(unexplained > 1e-12 * by_time)) return by_time > 0;
  const double ratio = (by_time - unexplained) / costly / (unexplained / freedom);
  return ratio > 0 &&
         boost::math::cdf(boost::math::complement(boost::math::fisher_f(costly, freedom), ratio)) < kChance;
}

/// Those with executions now, the most first, at most `most`.
std::vector<std::string> names_by_count(const Series& now, size_t most) {
  std::map<std::string, double> sums;
  for_each_ended(now,
                 [&](Eigen::Index /*row*/, const std::string& name, double ended) { sums[name] -= ended; });
  std::vector<std::pair<double, std::string>> counts;
  for (const auto& [name, sum] : sums)
    counts.emplace_back(sum, name);
  std::ranges::sort(counts);
  std::vector<std::string> names;
  for (auto& [count, name] : counts)
    if (names.size() < most) names.push_back(std::move(name));
  return names;
}

}  // namespace

std::string describe(const DearerRegion& region) {
  const std::string also = region.aliases.empty()
                               ? ""
                               : fmt::format(" (and {}, which end with it)", fmt::join(region.aliases, ", "));
  const std::string before =
      std::abs(region.before) > 0 ? fmt::format(", {:.3g} before", std::abs(region.before)) : "";
  return fmt::format("it {} by {:.3g} with each {}{}{}: {:.0f} % of its {}",
                     region.each < 0 ? "falls" : "grows", std::abs(region.each), region.name, also, before,
                     100 * region.part, region.each < 0 ? "decrease" : "growth");
}

Costs::Costs(const Series* healthy, const Series& now) {
  // Counts go together by how they vary now: that is what the costs of now are told apart by.
  const std::vector<std::string> names = names_by_count(now, kMostRegions);
  const auto ended = ended_by_name(now, names);
  for (const std::string& name : names) {
    const auto group = std::ranges::find_if(
        groups_, [&](const Group& each) { return go_together(ended.at(each.name), ended.at(name)); });
    if (group == groups_.end())
      groups_.push_back({.name = name, .aliases = {}});
    else
      group->aliases.push_back(name);
  }
  now_ = side_of(now);
  if (healthy != nullptr) healthy_ = side_of(*healthy);
}

Costs::Side Costs::side_of(const Series& series) const {
  std::vector<std::string> names;
  for (const Group& group : groups_)
    names.push_back(group.name);
  const auto ended = ended_by_name(series, names);
  Side side{.series = &series, .tells = telling_rows(series), .ended = {}, .gram = {}};
  side.ended = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(series.rows()),
                                     static_cast<Eigen::Index>(groups_.size()) + 1);
  for (size_t i = 0; i < groups_.size(); ++i)
    side.ended.col(static_cast<Eigen::Index>(i)) = ended.at(groups_[i].name);
  side.ended.rightCols<1>().setOnes();
  for (size_t row = 0; row < series.rows(); ++row)
    if (!side.tells[row]) side.ended.row(static_cast<Eigen::Index>(row)).setZero();
  side.gram = side.ended.transpose() * side.ended;
  return side;
}

double Costs::growth_a_row(const Side& side, size_t column) {
  const Eigen::VectorXd growth = growth_of(*side.series, column);
  double sum = 0;
  size_t rows = 0;
  for (Eigen::Index row = 0; row < growth.size(); ++row) {
    if (!side.tells[static_cast<size_t>(row)] || !std::isfinite(growth[row])) continue;
    sum += growth[row];
    ++rows;
  }
  return rows == 0 ? 0 : sum / static_cast<double>(rows);
}

Costs::Explained Costs::explain(const Side& side, size_t column, double sign) {
  Eigen::VectorXd growth = sign * growth_of(*side.series, column);
  Explained out;
  Eigen::MatrixXd gram = side.gram;
  Eigen::VectorXd moments = Eigen::VectorXd::Zero(gram.cols());
  double squares = 0;
  for (Eigen::Index row = 0; row < growth.size(); ++row) {
    if (!side.tells[static_cast<size_t>(row)]) continue;
    const auto ended = side.ended.row(row);
    if (!std::isfinite(growth[row])) {
      gram -= ended.transpose() * ended;
      continue;
    }
    moments += ended.transpose() * growth[row];
    out.growth += growth[row];
    squares += growth[row] * growth[row];
    ++out.rows;
  }
  out.costs = metric_trace::least_squares_above_zero(gram, moments);
  out.counts = gram.rightCols<1>();
  const double unexplained = squares - 2 * out.costs.dot(moments) + out.costs.dot(gram * out.costs);
  out.variances = variances_of(gram, unexplained, out.rows);
  out.not_by_chance = explains(out.costs, unexplained, squares, out.growth, out.rows);
  return out;
}

std::vector<DearerRegion> Costs::dearer(size_t column, size_t most) const {
  if (groups_.empty()) return {};
  const double before = healthy_ ? growth_a_row(*healthy_, column) : 0, after = growth_a_row(now_, column);
  const double sign = after >= before ? 1 : -1;
  if (!(sign * after > 0) || sign * after <= sign * before) return {};
  const Eigen::VectorXd nothing = Eigen::VectorXd::Zero(now_.ended.cols());
  const Explained now = explain(now_, column, sign),
                  healthy = healthy_ ? explain(*healthy_, column, sign)
                                     : Explained{.costs = nothing, .counts = {}, .variances = nothing};
  // Nobody knows what an execution cost before.
  if (healthy_ && healthy.rows == 0) return {};
  if (!now.not_by_chance) return {};
  // Of a metric that also falls, executions explain more than is left in the end.
  const double whole = std::max(now.growth, now.costs.dot(now.counts));
  std::vector<DearerRegion> out;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const auto at = static_cast<Eigen::Index>(i);
    const double dearer = now.costs[at] - healthy.costs[at], more = dearer * now.counts[at];
    if (more < kLeastPart * whole) continue;
    if (dearer < kLeastErrors * std::sqrt(now.variances[at] + healthy.variances[at])) continue;
    out.push_back({.name = groups_[i].name,
                   .aliases = groups_[i].aliases,
                   .each = sign * now.costs[at],
                   .before = sign * healthy.costs[at],
                   .part = more / whole});
  }
  std::ranges::stable_sort(out, std::greater(), &DearerRegion::part);
  out.resize(std::min(out.size(), most));
  return out;
}

}  // namespace kintsugi::orion
