#include "monitoring/metrics/rams/detector.h"

#include <algorithm>

namespace kintsugi::rams {

Detector::Detector(const std::vector<std::string>& channels, std::chrono::nanoseconds period,
                   const Calibration& calibration, const DetectorOptions& options)
    : calibration_(calibration),
      options_(options),
      blocked_samples_(
          period.count() > 0 ? std::max<size_t>(1, static_cast<size_t>(options.blocked_for / period)) : 1),
      node_(channels, calibration.options.scores) {}

void Detector::begin_segment(const std::string& build_id) {
  node_.begin_segment();
  samples_ = 0;
  still_samples_ = 0;
  if (build_id == build_id_) return;
  build_id_ = build_id;
  node_.forget_past();
  latch_.reset();
}

std::optional<Verdict> Detector::add(const Sample& sample) {
  const bool still = sample.open > 0 && sample.processors <= options_.blocked_processors;
  still_samples_ = still ? still_samples_ + 1 : 0;
  // A process that does not run says nothing of its line: it looks idle, or off the line by what others do in its name.
  if (!still) {
    node_.add(sample.app, sample.os, !latch_);
    if (latch_) see_whether_healed();
  }
  if (++samples_ % calibration_.options.stride != 0) return std::nullopt;
  return verdict(sample.t_ns);
}

Verdict Detector::verdict(int64_t t_ns) {
  const std::vector<KeyedScore> scores = node_.scores();
  Verdict out{.t_ns = t_ns, .score = node_score(scores, calibration_.references)};
  const bool remarkable = out.score && out.score->surprise > calibration_.threshold;
  if (!latch_ && blocked()) {
    out.state = State::kBlocked;
    return out;
  }
  if (!latch_ && remarkable) raise(*out.score, t_ns);
  if (latch_) {
    out.state = State::kSick;
    out.alarm = latch_->alarm;
    return out;
  }
  if (out.score) {
    out.state = State::kHealthy;
    return out;
  }
  // The first score with a reason of its own says it; scores without one have nothing to be compared with.
  const auto without = std::ranges::find_if(scores, [](const KeyedScore& score) { return !score.value; });
  out.lack = without != scores.end() ? without->value.error()
             : scores.empty()        ? NotEnough{Lack::kMetrics}
                                     : NotEnough{Lack::kHealthyReference, 0, kFewestRuns};
  return out;
}

void Detector::raise(const NodeScore& score, int64_t t_ns) {
  latch_.emplace(Latch{.alarm = {.score = score, .threshold = calibration_.threshold, .since_ns = t_ns}});
  const auto& scorers = node_.scorers();
  // The line of the channel that raised it, else of any that has one.
  for (const bool any : {false, true}) {
    for (size_t i = 0; i < scorers.size() && !latch_->line; ++i) {
      const ScoreKey key = scorers[i].keys().front();
      const auto reference = calibration_.references.find(key);
      if ((!any && key.channel != score.key.channel) || reference == calibration_.references.end()) continue;
      const auto line = scorers[i].line();
      if (!line) continue;
      latch_->channel = i;
      latch_->line = *line;
      latch_->limit = reference->second.at(options_.healthy_share);
    }
  }
}

void Detector::see_whether_healed() {
  if (!latch_->line) return;
  const auto distance = node_.scorers()[latch_->channel].against(*latch_->line);
  if (!distance) return;
  latch_->healthy_samples = *distance <= latch_->limit ? latch_->healthy_samples + 1 : 0;
  if (latch_->healthy_samples < options_.healthy_samples) return;
  latch_.reset();
  // Windows that hold the fault would raise the alarm again.
  node_.begin_segment();
}

std::vector<Verdict> judge(const Inputs& inputs, const Calibration& calibration,
                           const DetectorOptions& options) {
  std::vector<Verdict> out;
  Detector detector(inputs.channels, inputs.period, calibration, options);
  for (const metric_trace::Segment& segment : inputs.segments) {
    detector.begin_segment(segment.build_id);
    for (size_t row = segment.begin; row < segment.end; ++row) {
      const auto at = static_cast<Eigen::Index>(row);
      const auto verdict = detector.add({.t_ns = inputs.t_ns[row],
                                         .app = inputs.app[at],
                                         .os = inputs.os.row(at).transpose(),
                                         .processors = inputs.processors[at],
                                         .open = inputs.open[at]});
      if (verdict) out.push_back(*verdict);
    }
  }
  return out;
}

}  // namespace kintsugi::rams
