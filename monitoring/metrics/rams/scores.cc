#include "monitoring/metrics/rams/scores.h"

#include <algorithm>
#include <cmath>

#include "common/base/statistics.h"
#include "monitoring/metrics/rams/serial_correlation.h"

namespace kintsugi::rams {

namespace {

Eigen::Map<const Eigen::VectorXd> newest(const std::vector<double>& values, size_t count) {
  return {values.data() + (values.size() - count), static_cast<Eigen::Index>(count)};
}

}  // namespace

Answer<double> serial_score(const Eigen::Ref<const Eigen::VectorXd>& app,
                            const Eigen::Ref<const Eigen::VectorXd>& os, double steady_load) {
  const auto fit = fit_line(app, os, Line::kWithIntercept);
  if (!fit) return fit.error();
  const std::span<const double> load(app.data(), static_cast<size_t>(app.size()));
  if (deviation_of(load) < steady_load * std::abs(mean_of(load))) return NotEnough{Lack::kMovingLoad};
  const auto test = breusch_godfrey(*fit);
  if (!test) return test.error();
  return std::copysign(std::sqrt(test->lm), autocorrelation(*fit));
}

Answer<FrozenLine> freeze_line(const Eigen::Ref<const Eigen::VectorXd>& app,
                               const Eigen::Ref<const Eigen::VectorXd>& os) {
  const auto fit = fit_line(app, os, Line::kWithIntercept);
  if (!fit) return fit.error();
  if (fit->sigma <= 0) return NotEnough{Lack::kMovingResiduals};
  return FrozenLine{fit->intercept, fit->slope, fit->sigma};
}

Answer<double> frozen_line_score(const FrozenLine& line, const Eigen::Ref<const Eigen::VectorXd>& app,
                                 const Eigen::Ref<const Eigen::VectorXd>& os) {
  if (!app.allFinite() || !os.allFinite()) return NotEnough{Lack::kKnownValues};
  double sum = 0;
  for (Eigen::Index i = 0; i < app.size(); ++i)
    sum += std::abs(line.distance(app[i], os[i]));
  return sum / static_cast<double>(app.size());
}

void Scorer::add(double app, double os, bool healthy) {
  const size_t most = std::max(std::ranges::max(options_.windows), options_.newest);
  // Erased in bulk, so that a row costs little.
  if (app_.size() >= 2 * most) {
    app_.erase(app_.begin(), app_.end() - static_cast<ptrdiff_t>(most));
    os_.erase(os_.begin(), os_.end() - static_cast<ptrdiff_t>(most));
  }
  app_.push_back(app);
  os_.push_back(os);
  if (!healthy || !std::isfinite(app) || !std::isfinite(os)) return;
  past_.push_back({app, os});
  if (past_.size() > options_.past) past_.pop_front();
}

std::vector<ScoreKey> Scorer::keys() const {
  std::vector<ScoreKey> keys{{channel_, Score::kFrozenLine, 0}};
  for (const size_t window : options_.windows) {
    keys.push_back({channel_, Score::kSerial, window});
    keys.push_back({channel_, Score::kBreak, window});
  }
  return keys;
}

std::vector<Answer<double>> Scorer::scores() const {
  const auto frozen = line();
  std::vector<Answer<double>> out{frozen ? against(*frozen) : Answer<double>(frozen.error())};
  for (const size_t window : options_.windows) {
    out.push_back(of_window(window, Score::kSerial));
    out.push_back(of_window(window, Score::kBreak));
  }
  return out;
}

Answer<double> Scorer::of_window(size_t window, Score score) const {
  if (app_.size() < window) return NotEnough{Lack::kSamples, app_.size(), window};
  const auto app = newest(app_, window), os = newest(os_, window);
  return score == Score::kSerial ? serial_score(app, os, options_.steady_load) : chow_f(app, os);
}

Answer<FrozenLine> Scorer::line() const {
  if (past_.size() < options_.fewest_past)
    return NotEnough{Lack::kHealthyPast, past_.size(), options_.fewest_past};
  // The newest samples are no part of the line that they are set against.
  const size_t half = std::min(past_.size() / 2, past_.size() - options_.newest);
  Eigen::VectorXd app(static_cast<Eigen::Index>(half)), os(static_cast<Eigen::Index>(half));
  for (size_t i = 0; i < half; ++i) {
    app[static_cast<Eigen::Index>(i)] = past_[i].app;
    os[static_cast<Eigen::Index>(i)] = past_[i].os;
  }
  return freeze_line(app, os);
}

Answer<double> Scorer::against(const FrozenLine& line) const {
  if (app_.size() < options_.newest) return NotEnough{Lack::kSamples, app_.size(), options_.newest};
  return frozen_line_score(line, newest(app_, options_.newest), newest(os_, options_.newest));
}

}  // namespace kintsugi::rams
