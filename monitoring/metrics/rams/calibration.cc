#include "monitoring/metrics/rams/calibration.h"

#include <algorithm>
#include <cmath>

#include "common/base/statistics.h"

namespace kintsugi::rams {

namespace {

constexpr double kTailShare = 0.05;
/// A tail narrower than this, in the logarithm, is not believed: few values, or nearly equal ones.
constexpr double kNarrowestTail = 0.05;

double log_of(double value) {
  return std::log1p(std::max(0.0, value));
}

/// The scores of one run, evaluation by evaluation.
using Scored = std::vector<std::vector<KeyedScore>>;

Scored scored(const Inputs& run, const CalibrationOptions& options) {
  Scored out;
  Node node(run.channels, options.scores);
  for (const metric_trace::Segment& segment : run.segments) {
    node.begin_segment();
    for (size_t row = segment.begin; row < segment.end; ++row) {
      const auto at = static_cast<Eigen::Index>(row);
      node.add(run.app[at], run.os.row(at).transpose(), true);
      if ((row - segment.begin + 1) % options.stride == 0) out.push_back(node.scores());
    }
  }
  return out;
}

/// References of all runs but that number.
References references_of(const std::vector<Scored>& runs, std::optional<size_t> without = std::nullopt) {
  std::map<ScoreKey, std::vector<double>> values;
  for (size_t run = 0; run < runs.size(); ++run) {
    if (run == without) continue;
    for (const auto& evaluation : runs[run]) {
      for (const KeyedScore& score : evaluation) {
        if (score.value) values[score.key].push_back(*score.value);
      }
    }
  }
  References out;
  for (auto& [key, healthy] : values)
    out.emplace(key, Reference(std::move(healthy)));
  return out;
}

}  // namespace

Reference::Reference(std::vector<double> healthy) : sorted_(std::move(healthy)) {
  std::ranges::sort(sorted_);
  tail_begins_ = log_of(at(1 - kTailShare));
  double excess = 0;
  size_t above = 0;
  for (const double value : sorted_) {
    if (log_of(value) <= tail_begins_) continue;
    excess += log_of(value) - tail_begins_;
    ++above;
  }
  tail_scale_ = std::max(kNarrowestTail, above == 0 ? 0 : excess / static_cast<double>(above));
}

double Reference::at(double share) const {
  return sorted_.empty() ? 0 : quantile_of_sorted(sorted_, share);
}

double Reference::tail(double value) const {
  if (const double beyond = log_of(value) - tail_begins_; beyond > 0)
    return kTailShare * std::exp(-beyond / tail_scale_);
  const auto as_high = sorted_.end() - std::ranges::lower_bound(sorted_, value);
  const double share = (1 + static_cast<double>(as_high)) / (1 + static_cast<double>(sorted_.size()));
  return std::max(kTailShare, share);
}

double Reference::quantile(double value) const {
  if (sorted_.empty()) return 0;
  const auto below = static_cast<double>(std::ranges::lower_bound(sorted_, value) - sorted_.begin());
  return std::min(below, static_cast<double>(sorted_.size()) - 1) / static_cast<double>(sorted_.size());
}

std::optional<NodeScore> node_score(std::span<const KeyedScore> scores, const References& references) {
  std::optional<NodeScore> best;
  double lowest = 2;
  size_t looked_at = 0;
  for (const KeyedScore& score : scores) {
    if (!score.value) continue;
    const auto reference = references.find(score.key);
    if (reference == references.end()) continue;
    ++looked_at;
    const double tail = reference->second.tail(*score.value);
    if (tail >= lowest) continue;
    lowest = tail;
    best = NodeScore{.key = score.key,
                     .value = *score.value,
                     .quantile = reference->second.quantile(*score.value),
                     .reference_values = reference->second.size()};
  }
  if (!best) return best;
  best->scores = looked_at;
  best->surprise = std::max(0.0, -std::log10(lowest) - std::log10(static_cast<double>(looked_at)));
  return best;
}

Answer<Calibration> calibrate(std::string role, std::span<const Inputs> healthy,
                              const CalibrationOptions& options) {
  std::vector<Scored> runs;
  for (const Inputs& run : healthy) {
    Scored scores = scored(run, options);
    const bool answers = std::ranges::any_of(scores, [](const auto& evaluation) {
      return std::ranges::any_of(evaluation, [](const KeyedScore& score) { return score.value.has_value(); });
    });
    if (answers) runs.push_back(std::move(scores));
  }
  if (runs.size() < kFewestRuns) return NotEnough{Lack::kHealthyReference, runs.size(), kFewestRuns};
  std::vector<double> highest;
  for (size_t run = 0; run < runs.size(); ++run) {
    const References others = references_of(runs, run);
    double most = 0;
    for (const auto& evaluation : runs[run]) {
      if (const auto score = node_score(evaluation, others)) most = std::max(most, score->surprise);
    }
    highest.push_back(most);
  }
  return Calibration{.role = std::move(role),
                     .origin = healthy.front().origin,
                     .references = references_of(runs),
                     .threshold = quantile_of(highest, options.threshold_share),
                     .runs = runs.size(),
                     .options = options};
}

}  // namespace kintsugi::rams
