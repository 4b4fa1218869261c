#include "monitoring/metrics/orion/healthy_windows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "common/base/statistics.h"
#include "monitoring/metrics/orion/rarity.h"

namespace kintsugi::orion {

using metric_trace::PairVector;
using metric_trace::Series;

namespace {

/// Parts of the healthy trace that are left out in turn.
constexpr size_t kParts = 8;

}  // namespace

bool is_load(const std::string& name) {
  static const char* const parts[] = {"calls", "read_bytes", "written_bytes", "link_bytes", "_operations"};
  return std::ranges::any_of(parts, [&](const char* part) { return name.find(part) != std::string::npos; });
}

Load::Load(const Series& healthy, const std::vector<size_t>& columns) {
  for (const size_t column : columns) {
    if (!is_load(healthy.names[column])) continue;
    std::vector<double> known;
    for (const double value : healthy.values.col(static_cast<Eigen::Index>(column)))
      if (std::isfinite(value)) known.push_back(value);
    columns_.push_back(column);
    means_.push_back(mean_of(known));
    deviations_.push_back(std::max(deviation_of(known), 1e-9));
  }
}

Eigen::VectorXd Load::of(const Series& series) const {
  Eigen::VectorXd out = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(series.rows()));
  for (size_t i = 0; i < columns_.size(); ++i)
    out.array() +=
        (series.values.col(static_cast<Eigen::Index>(columns_[i])).array() - means_[i]) / deviations_[i];
  if (!columns_.empty()) out /= static_cast<double>(columns_.size());
  return out;
}

std::vector<double> scores_of(const std::vector<float>& pairs, const std::vector<double>& levels) {
  std::vector<std::pair<double, size_t>> squares;
  for (size_t i = 0; i < pairs.size(); ++i)
    if (std::isfinite(pairs[i])) squares.emplace_back(pairs[i] * pairs[i], i);
  const size_t voting = std::min(kVotingPairs, squares.size());
  std::ranges::partial_sort(squares, squares.begin() + static_cast<std::ptrdiff_t>(voting), std::greater<>());
  std::vector<double> scores;
  for (const double level : levels)
    scores.push_back(level * level);
  const auto table = metric_trace::pair_table(scores.size());
  for (size_t i = 0; i < voting; ++i)
    for (const uint32_t live : {table[squares[i].second].first, table[squares[i].second].second})
      scores[live] += squares[i].first / static_cast<double>(kVotingPairs);
  return scores;
}

double HealthyWindows::Level::off(double value, double load) const {
  const double far = squares_of_load > 0 ? (load - mean_load) * (load - mean_load) / squares_of_load : 0;
  return (value - intercept - slope * load) / (deviation * std::sqrt(1 + 1 / windows + far));
}

Result<HealthyWindows> HealthyWindows::learn(const Series& healthy, size_t size, Rows rows) {
  HealthyWindows out;
  out.size_ = size;
  out.rows_ = std::move(rows);
  out.preparation_ = metric_trace::prepare(healthy);
  out.columns_ = out.preparation_.columns();
  if (out.columns_.size() < 2)
    return Status(Code::kNotFound,
                  "not enough data because fewer than two metrics move on the healthy trace");
  const std::vector<size_t> begins =
      metric_trace::window_begins(healthy.segments, size, std::max<size_t>(size / 2, 1));
  if (begins.size() < kFewestWindows)
    return Status(Code::kNotFound, "not enough data because the healthy trace has " +
                                       std::to_string(begins.size()) + " windows of " + std::to_string(size) +
                                       " rows, and " + std::to_string(kFewestWindows) + " are needed");
  out.load_ = Load(healthy, out.columns_);
  const Eigen::VectorXd load = out.load_.of(healthy);
  const std::vector<uint32_t> parts = metric_trace::parts_of_rows(healthy.segments, healthy.rows(), kParts);
  out.find_drifting(healthy, load, begins);
  std::vector<Sample> samples;
  for (const size_t begin : begins) {
    samples.push_back(out.sample(healthy, load, begin));
    // A window that reaches into the next part belongs to none: it would know both.
    const uint32_t first = parts[begin], last = parts[begin + size - 1];
    samples.back().part = first == last ? first : std::numeric_limits<uint32_t>::max();
  }
  std::set<uint32_t> numbers;
  for (const Sample& each : samples)
    numbers.insert(each.part);
  std::vector<double> distances, levels;
  for (const uint32_t part : numbers) {
    std::vector<const Sample*> others;
    for (const Sample& each : samples)
      if (each.part != part && each.part != std::numeric_limits<uint32_t>::max()) others.push_back(&each);
    if (part == std::numeric_limits<uint32_t>::max() || others.size() < 3) continue;
    out.learn_from(others);
    for (const Sample& each : samples)
      if (each.part == part) {
        const Deviations deviations = out.compare(each);
        distances.push_back(deviations.distance);
        levels.push_back(deviations.level);
      }
  }
  if (distances.size() < 3)
    return Status(Code::kNotFound, "not enough data because no part of the healthy trace can be left out");
  out.distances_ = Usual(distances);
  out.levels_of_one_ = Usual(levels);
  std::vector<const Sample*> all;
  for (const Sample& each : samples)
    all.push_back(&each);
  out.learn_from(all);
  return out;
}

HealthyWindows::Sample HealthyWindows::sample(const Series& series, const Eigen::VectorXd& load,
                                              size_t begin) const {
  const auto first = static_cast<Eigen::Index>(begin), rows = static_cast<Eigen::Index>(size_);
  Eigen::MatrixXd window = series.values(Eigen::seqN(first, rows), columns_);
  if (rows_) window = rows_(window);
  const PairVector pairs = metric_trace::correlations(window);
  Sample out;
  out.pairs.resize(static_cast<Eigen::Index>(pairs.size()));
  const double scale = std::sqrt(std::max<double>(static_cast<double>(size_) - 3, 1));
  for (size_t i = 0; i < pairs.size(); ++i)
    out.pairs(static_cast<Eigen::Index>(i)) = std::atanh(std::clamp<double>(pairs[i], -0.999, 0.999)) * scale;
  out.levels = window.colwise().mean().transpose();
  const Eigen::Index half = rows / 2;
  for (Eigen::Index i = 0; i < out.levels.size(); ++i)
    if (drifts_[static_cast<size_t>(i)])
      out.levels(i) = window.col(i).tail(half).mean() - window.col(i).head(half).mean();
  const auto loads = load.segment(first, rows);
  out.load = loads.mean();
  out.movement = 0.5 * std::log((loads.array() - out.load).square().mean() + 1e-6);
  return out;
}

void HealthyWindows::find_drifting(const Series& healthy, const Eigen::VectorXd& load,
                                   const std::vector<size_t>& begins) {
  drifts_.assign(columns_.size(), false);
  std::vector<Sample> samples;
  for (const size_t begin : begins)
    samples.push_back(sample(healthy, load, begin));
  std::vector<const Sample*> all;
  for (const Sample& each : samples)
    all.push_back(&each);
  learn_from(all);
  for (size_t i = 0; i < levels_.size(); ++i)
    drifts_[i] = levels_[i].resemblance > kDrift;
}

void HealthyWindows::learn_pairs(const std::vector<const Sample*>& samples) {
  mean_movement_ = 0;
  for (const Sample* each : samples)
    mean_movement_ +=
        (std::isfinite(each->movement) ? each->movement : 0) / static_cast<double>(samples.size());
  const Eigen::Index pairs = samples.front()->pairs.size();
  Eigen::ArrayXd count = Eigen::ArrayXd::Zero(pairs), sum = count, moved = count, both = count,
                 squares = count;
  const auto for_each = [&](const auto& use) {
    for (const Sample* each : samples)
      if (std::isfinite(each->movement)) use(each->pairs.array(), each->movement - mean_movement_);
  };
  for_each([&](const auto& z, double movement) {
    const auto known = z.isFinite();
    count += known.template cast<double>();
    sum += known.select(z, 0);
    moved += known.template cast<double>() * movement * movement;
    both += known.select(z * movement, 0);
  });
  pair_means_ = sum / count.max(1);
  pair_slopes_ = (moved > 1e-9).select(both / moved.max(1e-9), 0);
  for_each([&](const auto& z, double movement) {
    squares += z.isFinite().select((z - pair_means_.array() - pair_slopes_.array() * movement).square(), 0);
  });
  pair_deviations_ = (squares / (count - 2).max(1)).sqrt().max(1);
}

void HealthyWindows::learn_from(const std::vector<const Sample*>& samples) {
  learn_pairs(samples);
  const auto [least, most] =
      std::ranges::minmax_element(samples, {}, [](const Sample* each) { return each->load; });
  least_load_ = (*least)->load;
  most_load_ = (*most)->load;

  levels_.assign(columns_.size(), {});
  for (size_t i = 0; i < columns_.size(); ++i) {
    Level& level = levels_[i];
    std::vector<std::pair<double, double>> points;  // load, value
    for (const Sample* each : samples)
      if (const double value = each->levels(static_cast<Eigen::Index>(i)); std::isfinite(value + each->load))
        points.emplace_back(each->load, value);
    double sum_of_loads = 0, sum = 0;
    for (const auto& [load, value] : points) {
      sum_of_loads += load;
      sum += value;
    }
    level.windows = std::max<double>(static_cast<double>(points.size()), 1);
    level.mean_load = sum_of_loads / level.windows;
    const double mean = sum / level.windows;
    double both = 0, squares = 0;
    for (const auto& [load, value] : points) {
      level.squares_of_load += (load - level.mean_load) * (load - level.mean_load);
      both += (load - level.mean_load) * (value - mean);
    }
    level.slope = level.squares_of_load > 1e-12 ? both / level.squares_of_load : 0;
    level.intercept = mean - level.slope * level.mean_load;
    std::vector<double> rests;
    for (const auto& [load, value] : points) {
      rests.push_back(value - level.intercept - level.slope * load);
      squares += rests.back() * rests.back();
    }
    level.resemblance = resemblance_of(rests);
    level.independent = independent_of(rests.size(), level.resemblance);
    level.deviation =
        std::max(std::sqrt(squares / std::max(level.windows - 2, 1.0)), 1e-3 * std::abs(mean) + 1e-12);
  }
}

Deviations HealthyWindows::compare(const Sample& sample) const {
  Deviations out;
  std::vector<double> squares;
  for (Eigen::Index i = 0; i < sample.pairs.size(); ++i) {
    const double expected = pair_means_(i) + pair_slopes_(i) * (sample.movement - mean_movement_);
    const double off =
        knows(sample.load) ? (sample.pairs(i) - expected) / pair_deviations_(i) : metric_trace::kMissing;
    out.pairs.push_back(static_cast<float>(off));
    if (std::isfinite(off)) squares.push_back(off * off);
  }
  for (size_t i = 0; i < levels_.size(); ++i) {
    const double off = levels_[i].off(sample.levels(static_cast<Eigen::Index>(i)), sample.load);
    out.sizes.push_back(std::isfinite(off) ? off : 0);
    out.levels.push_back(as_normal(out.sizes.back(), levels_[i].independent - 1));
    squares.push_back(out.levels.back() * out.levels.back());
    out.level = std::max(out.level, std::abs(out.levels.back()));
  }
  const size_t counted = std::min(kCountedPairs, squares.size());
  std::ranges::nth_element(squares, squares.begin() + static_cast<std::ptrdiff_t>(counted - 1),
                           std::greater<>());
  double sum = 0;
  for (size_t i = 0; i < counted; ++i)
    sum += squares[i];
  out.distance = std::sqrt(sum / static_cast<double>(counted));
  return out;
}

Deviations HealthyWindows::deviations(const Series& series, const Eigen::VectorXd& load, size_t begin) const {
  Deviations out = compare(sample(series, load, begin));
  for (const metric_trace::Watched& each : preparation_.watched) {
    const auto values = series.values.col(static_cast<Eigen::Index>(each.column))
                            .segment(static_cast<Eigen::Index>(begin), static_cast<Eigen::Index>(size_));
    out.moved.push_back(each.low == each.high && (values.array() != each.low).all() &&
                        values.array().isFinite().all());
  }
  return out;
}

HealthyWindows::Usual::Usual(const std::vector<double>& values)
    : median(median_of(values)),
      deviation(std::max(robust_deviation_of(values), 0.05 * median)),
      largest(std::ranges::max(values)) {}

double HealthyWindows::Usual::most(size_t windows) const {
  return kMargin * std::max(median + deviation * most_of_normal(windows), largest);
}

double HealthyWindows::excess(const Deviations& deviations, size_t windows) const {
  return std::max(deviations.distance / distances_.most(windows),
                  deviations.level / levels_of_one_.most(windows));
}

}  // namespace kintsugi::orion
