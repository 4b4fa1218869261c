#include "monitoring/behaviour/section.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/statistics.h"

namespace kintsugi::behaviour {
namespace {

/// Inputs that span less than this are not taken by their logarithm.
constexpr double kWideSpan = 4;
/// How many standard errors of the difference the errors of one fit may be larger than those of the best one, on the
/// same executions, so that it still counts as good: of another penalty, and of another form.
constexpr double kPenaltiesApart = 2, kFormsApart = 3;
/// In robust fits an execution further than this many robust deviations away counts less.
constexpr double kFar = 2.5;

Eigen::VectorXd vector_of(const std::vector<double>& values) {
  return Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Eigen::Index>(values.size()));
}

double error_of(double actual, double predicted, bool relative) {
  if (!relative) return actual - predicted;
  return std::log2(actual) - std::log2(predicted);
}

/// Which of several fits are as good as the best of them, by their out-of-fold errors of the same executions. They are
/// compared execution by execution, so that what no fit can foresee counts for none. An error beyond the usual, of
/// which `deviation` is the robust deviation, counts as the usual one: the heavy tail would be most of the squares
/// else, and hide that a fit misses the law.
std::vector<bool> as_good(std::vector<std::vector<double>> errors, double deviation, double apart) {
  const double most = deviation > 0 ? kFar * deviation : std::numeric_limits<double>::infinity();
  std::vector<double> losses;
  for (auto& of_fit : errors) {
    for (double& error : of_fit) {
      const double size = std::min(std::abs(error), most);
      error = size * size;
    }
    losses.push_back(mean_of(of_fit));
  }
  const auto best =
      errors[static_cast<size_t>(std::min_element(losses.begin(), losses.end()) - losses.begin())];
  std::vector<bool> out;
  for (auto& of_fit : errors) {
    for (size_t i = 0; i < of_fit.size(); ++i)
      of_fit[i] -= best[i];
    out.push_back(mean_of(of_fit) <=
                  apart * deviation_of(of_fit) / std::sqrt(static_cast<double>(of_fit.size())));
  }
  return out;
}

}  // namespace

bool all_positive(const Samples& samples) {
  return std::all_of(samples.observed.begin(), samples.observed.end(),
                     [](double value) { return value > 0; });
}

std::vector<std::vector<uint32_t>> polynomial_terms(size_t features, uint32_t degree) {
  std::vector<std::vector<uint32_t>> terms, last{{}};
  for (uint32_t d = 0; d < degree; ++d) {
    std::vector<std::vector<uint32_t>> next;
    for (const auto& term : last)
      for (uint32_t f = term.empty() ? 0 : term.back(); f < features; ++f) {
        next.push_back(term);
        next.back().push_back(f);
      }
    terms.insert(terms.end(), next.begin(), next.end());
    last = std::move(next);
  }
  return terms;
}

void Section::set_scales(const Samples& samples) {
  const size_t features = samples.features();
  logs_.assign(features, false);
  centre_.assign(features, 0);
  scale_.assign(features, 0);
  for (size_t f = 0; f < features; ++f) {
    std::vector<double> column = samples.inputs[f];
    const auto [low, high] = std::minmax_element(column.begin(), column.end());
    logs_[f] = form_.log_inputs && *low >= 0 && (1 + *high) > kWideSpan * (1 + *low);
    if (logs_[f])
      for (double& value : column)
        value = std::log2(1 + value);
    centre_[f] = mean_of(column);
    const double deviation = deviation_of(column);
    scale_[f] = deviation > 1e-12 * std::abs(centre_[f]) ? 1 / deviation : 0;
  }
  terms_ = polynomial_terms(features, form_.degree);
}

Eigen::MatrixXd Section::rows_of(const Samples& samples) const {
  const auto n = static_cast<Eigen::Index>(samples.size());
  Eigen::MatrixXd scaled(n, static_cast<Eigen::Index>(samples.features()));
  for (size_t f = 0; f < samples.features(); ++f)
    for (Eigen::Index i = 0; i < n; ++i) {
      double value = samples.inputs[f][static_cast<size_t>(i)];
      if (logs_[f]) value = std::log2(1 + std::max(value, 0.0));
      scaled(i, static_cast<Eigen::Index>(f)) = (value - centre_[f]) * scale_[f];
    }
  Eigen::MatrixXd rows(n, static_cast<Eigen::Index>(terms_.size()));
  for (size_t t = 0; t < terms_.size(); ++t) {
    auto column = rows.col(static_cast<Eigen::Index>(t));
    column = scaled.col(terms_[t][0]);
    for (size_t k = 1; k < terms_[t].size(); ++k)
      column.array() *= scaled.col(terms_[t][k]).array();
  }
  return rows;
}

Eigen::VectorXd Section::target_of(const Samples& samples) const {
  Eigen::VectorXd target = vector_of(samples.observed);
  if (form_.target == Target::kLog) target = target.array().log() / std::log(2.0);
  return target;
}

/// `sizes` are about what the observations should be, or empty when that is not known yet.
Eigen::VectorXd Section::weights_of(const Samples& samples, const Eigen::VectorXd& sizes) const {
  const auto n = static_cast<Eigen::Index>(samples.size());
  Eigen::VectorXd weights = Eigen::VectorXd::Ones(n);
  if (sizes.size() == 0) {
    if (form_.target == Target::kRelative) weights = vector_of(samples.observed).array().inverse().square();
    return weights;
  }
  if (form_.target == Target::kRelative) weights = sizes.array().inverse().square();
  if (!robust_) return weights;
  const bool relative = form_.target != Target::kPlain;
  std::vector<double> errors(samples.size());
  for (size_t i = 0; i < errors.size(); ++i)
    errors[i] = error_of(samples.observed[i], sizes(static_cast<Eigen::Index>(i)), relative);
  const double median = median_of(errors), far = kFar * robust_deviation_of(errors);
  if (far <= 0) return weights;
  for (size_t i = 0; i < errors.size(); ++i)
    if (const double away = std::abs(errors[i] - median); away > far)
      weights(static_cast<Eigen::Index>(i)) *= far / away;
  return weights;
}

double Section::value_of(double fitted) const {
  if (form_.target == Target::kLog) return std::exp2(std::clamp(fitted, -1000.0, 1000.0));
  // Times and sizes never fall to nothing, wherever a polynomial goes outside of what it was fitted to.
  return form_.target == Target::kRelative ? std::max(fitted, least_value_) : fitted;
}

double Section::predict(std::span<const double> inputs) const {
  std::vector<double> scaled(inputs.size());
  for (size_t f = 0; f < inputs.size(); ++f) {
    const double value = logs_[f] ? std::log2(1 + std::max(inputs[f], 0.0)) : inputs[f];
    scaled[f] = (value - centre_[f]) * scale_[f];
  }
  double sum = line_.intercept;
  for (size_t t = 0; t < terms_.size(); ++t) {
    double product = line_.coefficients(static_cast<Eigen::Index>(t));
    if (product == 0) continue;
    for (uint32_t f : terms_[t])
      product *= scaled[f];
    sum += product;
  }
  return value_of(sum);
}

size_t Section::terms_used() const {
  return static_cast<size_t>((line_.coefficients.array() != 0).count());
}

std::vector<double> Section::errors_with(size_t penalty, const Samples& samples, const Folds& folds,
                                         const HeldOut& held_out) const {
  std::vector<double> errors(samples.size(), 0);
  for (size_t fold = 0; fold < folds.left_out(); ++fold) {
    const Line& line = held_out.lines[fold][penalty];
    const Eigen::VectorXd fitted = folds.rows[fold] * line.coefficients;
    for (size_t k = 0; k < folds.members[fold].size(); ++k) {
      const auto i = static_cast<size_t>(folds.members[fold][k]);
      errors[i] =
          error_of(samples.observed[i], value_of(fitted(static_cast<Eigen::Index>(k)) + line.intercept),
                   form_.target != Target::kPlain);
    }
  }
  return errors;
}

std::vector<double> Section::fit_form(const Samples& samples, const FitSettings& settings,
                                      const Eigen::VectorXd& sizes) {
  sparing_ = settings.sparing;
  robust_ = settings.robust;
  set_scales(samples);
  least_value_ = *std::min_element(samples.observed.begin(), samples.observed.end()) / 2;

  const Folds folds(rows_of(samples), target_of(samples), weights_of(samples, sizes), settings.folds,
                    settings.seed);
  Lasso whole(folds.all);
  const auto path = penalty_path(whole.largest_penalty(), settings.penalties);
  const HeldOut held_out(folds, path, sparing_);
  size_t best = held_out.best();
  if (sparing_) {
    std::vector<std::vector<double>> errors;
    for (size_t p = 0; p < path.size(); ++p)
      errors.push_back(errors_with(p, samples, folds, held_out));
    const double deviation = robust_deviation_of(errors[best]);
    const auto good = as_good(std::move(errors), deviation, kPenaltiesApart);
    if (const auto largest = std::find(good.begin(), good.end(), true); largest != good.end())
      best = static_cast<size_t>(largest - good.begin());
  }
  std::vector<double> errors = errors_with(best, samples, folds, held_out);
  squared_error_ = 0;
  for (double error : errors)
    squared_error_ += error * error;
  penalty_ = path.empty() ? 0 : path[best];
  for (size_t p = 0; p <= best && p < path.size(); ++p)
    whole.solve(path[p]);
  line_ = sparing_ ? whole.relaxed() : whole.line();
  return errors;
}

Section Section::fit(const Samples& samples, const FitSettings& settings) {
  Section best;
  if (!settings.choose_form || !all_positive(samples)) {
    best.form_ = {.target = Target::kPlain, .log_inputs = false, .degree = settings.degree};
    best.fit_form(samples, settings, {});
    return best;
  }
  // The first fit says about how large every observation should be; weights follow from that.
  Section first;
  first.form_ = {.target = Target::kLog, .log_inputs = true, .degree = settings.degree};
  first.fit_form(samples, settings, {});
  Eigen::VectorXd sizes(static_cast<Eigen::Index>(samples.size()));
  for (size_t i = 0; i < samples.size(); ++i)
    sizes(static_cast<Eigen::Index>(i)) = first.predict(samples.row(i));

  std::vector<Section> tried;
  std::vector<std::vector<double>> errors;
  for (uint32_t degree = 1; degree <= settings.degree; ++degree)
    for (const Form& form : {Form{Target::kRelative, false, degree}, Form{Target::kLog, true, degree},
                             Form{Target::kLog, false, degree}}) {
      Section section;
      section.form_ = form;
      errors.push_back(section.fit_form(samples, settings, sizes));
      tried.push_back(std::move(section));
    }
  double narrowest = std::numeric_limits<double>::infinity();
  for (const auto& of_form : errors)
    narrowest = std::min(narrowest, robust_deviation_of(of_form));
  const auto good = as_good(std::move(errors), narrowest, kFormsApart);
  std::vector<Section> equal;
  for (bool steep : {false, true}) {
    for (size_t k = 0; k < tried.size(); ++k)
      if (good[k] && tried[k].form_.steep() == steep) equal.push_back(std::move(tried[k]));
    if (!equal.empty()) break;
  }
  if (equal.empty()) return first;
  Section chosen = std::move(equal.front());
  chosen.rivals_ = std::make_shared<const std::vector<Section>>(std::make_move_iterator(equal.begin() + 1),
                                                                std::make_move_iterator(equal.end()));
  return chosen;
}

double Section::disagreement(std::span<const double> inputs) const {
  if (rivals_ == nullptr) return 0;
  const double own = predict(inputs);
  double most = 0;
  for (const Section& rival : *rivals_)
    most = std::max(most, (rival.predict(inputs) - own) / std::abs(own));
  return std::isfinite(most) ? most : std::numeric_limits<double>::max();
}

Section Section::refit(const Samples& samples) const {
  Section out = *this;
  const Eigen::MatrixXd rows = rows_of(samples);
  Eigen::VectorXd sizes;
  if (form_.target != Target::kPlain) {
    sizes.resize(static_cast<Eigen::Index>(samples.size()));
    for (size_t i = 0; i < samples.size(); ++i)
      sizes(static_cast<Eigen::Index>(i)) = predict(samples.row(i));
  }
  Moments moments(terms_.size());
  moments.add(rows, target_of(samples), weights_of(samples, sizes));
  Lasso lasso(moments);
  if (sparing_) {
    // The terms were chosen; only how much each of them counts is fitted again.
    std::vector<Eigen::Index> chosen;
    for (Eigen::Index t = 0; t < line_.coefficients.size(); ++t)
      if (line_.coefficients(t) != 0) chosen.push_back(t);
    out.line_ = lasso.over(chosen);
  } else {
    lasso.solve(std::min(penalty_, lasso.largest_penalty()));
    out.line_ = lasso.line();
  }
  return out;
}

}  // namespace kintsugi::behaviour
