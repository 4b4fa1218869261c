#include "monitoring/metrics/augury/arima.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include <Eigen/QR>

#include "common/base/statistics.h"
#include "monitoring/metrics/augury/arma_filter.h"
#include "monitoring/metrics/augury/minimise.h"

namespace kintsugi::augury {
namespace {

std::vector<double> differenced(std::span<const double> series, int times) {
  std::vector<double> out(series.begin(), series.end());
  for (; times > 0; --times) {
    for (size_t i = 0; i + 1 < out.size(); ++i)
      out[i] = out[i + 1] - out[i];
    out.pop_back();
  }
  return out;
}

/// What an ARMA model leaves of a series, with the mean and the variance that suit it best.
struct Judged {
  double mean = 0;
  double variance = 0;
  double log_variances = 0;  ///< Σ log of the innovations' variances in units of ε's
  double counted = 0;        ///< innovations that count

  /// What the most likely model has the least of.
  double cost() const { return std::log(variance) + log_variances / counted; }
  double log_likelihood(double n) const {
    return -0.5 * (n * (std::log(2 * std::numbers::pi * variance) + 1) + log_variances);
  }
};

/// Sums over innovations of the series (v) and of a series of ones (u): the innovations with the mean μ are v - μ u.
struct Sums {
  double vv = 0, vu = 0, uu = 0, log_variances = 0, counted = 0;

  void add(double v, double u, double variance) {
    vv += v * v / variance;
    vu += v * u / variance;
    uu += u * u / variance;
    log_variances += std::log(variance);
    ++counted;
  }
  Judged judged(bool with_mean) const {
    const double mean = with_mean && uu > 0 ? vu / uu : 0;
    return {.mean = mean,
            .variance = std::max(vv - 2 * mean * vu + mean * mean * uu, 0.0) / counted,
            .log_variances = log_variances,
            .counted = counted};
  }
};

Sums exact_sums(const std::vector<double>& values, const Arma& arma) {
  ArmaFilter filter(arma);
  Sums sums;
  for (const double value : values) {
    const ArmaFilter::Step step = filter.step(Eigen::RowVector2d(value, 1));
    sums.add(step.innovations(0), step.innovations(1), step.variance);
  }
  return sums;
}

Sums conditional_sums(const std::vector<double>& values, const Arma& arma) {
  Sums sums;
  std::vector<double> v(values.size(), 0), u(values.size(), 0);
  for (size_t t = arma.ar.size(); t < values.size(); ++t) {
    v[t] = values[t];
    u[t] = 1;
    for (size_t i = 0; i < arma.ar.size(); ++i) {
      v[t] -= arma.ar[i] * values[t - 1 - i];
      u[t] -= arma.ar[i];
    }
    for (size_t i = 0; i < std::min(arma.ma.size(), t); ++i) {
      v[t] -= arma.ma[i] * v[t - 1 - i];
      u[t] -= arma.ma[i] * u[t - 1 - i];
    }
    sums.add(v[t], u[t], 1);
  }
  return sums;
}

/// The coefficients of regressing `values` on its `lags` last values and those of `errors`.
std::vector<double> regressed(const std::vector<double>& values, size_t lags,
                              const std::vector<double>& errors, size_t error_lags, size_t from) {
  const size_t columns = lags + error_lags;
  Eigen::MatrixXd left(static_cast<Eigen::Index>(values.size() - from), static_cast<Eigen::Index>(columns));
  Eigen::VectorXd right(left.rows());
  for (size_t t = from; t < values.size(); ++t) {
    const auto row = static_cast<Eigen::Index>(t - from);
    right(row) = values[t];
    for (size_t i = 0; i < lags; ++i)
      left(row, static_cast<Eigen::Index>(i)) = values[t - 1 - i];
    for (size_t i = 0; i < error_lags; ++i)
      left(row, static_cast<Eigen::Index>(lags + i)) = errors[t - 1 - i];
  }
  const Eigen::VectorXd solved = left.colPivHouseholderQr().solve(right);
  return {solved.begin(), solved.end()};
}

/// A good beginning (Hannan and Rissanen 1982): errors from a long autoregression stand for ε.
Arma beginning(std::vector<double> values, Order order) {
  if (order.p + order.q == 0) return {};
  const double mean = mean_of(values);
  for (double& value : values)
    value -= mean;
  const auto p = static_cast<size_t>(order.p), q = static_cast<size_t>(order.q);
  const size_t longest = q == 0 ? 0 : std::clamp(values.size() / 10, p + q, size_t{20});
  std::vector<double> errors(values.size(), 0);
  if (q > 0) {
    const std::vector<double> ar = regressed(values, longest, {}, 0, longest);
    for (size_t t = longest; t < values.size(); ++t) {
      errors[t] = values[t];
      for (size_t i = 0; i < longest; ++i)
        errors[t] -= ar[i] * values[t - 1 - i];
    }
  }
  const std::vector<double> both = regressed(values, p, errors, q, longest + std::max(p, q));
  return {.ar = {both.begin(), both.begin() + order.p}, .ma = {both.begin() + order.p, both.end()}};
}

/// θ is invertible when -θ is stationary.
std::vector<double> negative(std::vector<double> values) {
  for (double& value : values)
    value = -value;
  return values;
}

Arma arma_of(const Eigen::VectorXd& free, Order order) {
  const std::span<const double> all(free.data(), static_cast<size_t>(free.size()));
  return {.ar = stationary(all.first(static_cast<size_t>(order.p))),
          .ma = negative(stationary(all.subspan(static_cast<size_t>(order.p))))};
}

Status check(std::span<const double> series, Order order) {
  const auto within = [](int value, int most) { return value >= 0 && value <= most; };
  if (!within(order.p, kHighestOrder) || !within(order.q, kHighestOrder) || !within(order.d, 2))
    return {Code::kInvalidArgument, "no such order of an ARIMA model"};
  if (series.size() < kFewestValues + static_cast<size_t>(order.d))
    return {Code::kInvalidArgument, "a model needs 20 values"};
  if (!std::ranges::all_of(series, [](double value) { return std::isfinite(value); }))
    return {Code::kInvalidArgument, "a value is missing"};
  return {};
}

/// Coefficients φ* of the series itself: those of φ(B) (1 - B)^d.
std::vector<double> undifferenced(const Model& model) {
  std::vector<double> polynomial{1};
  for (const double each : model.ar)
    polynomial.push_back(-each);
  for (int i = 0; i < model.order.d; ++i) {
    polynomial.push_back(0);
    for (size_t j = polynomial.size() - 1; j > 0; --j)
      polynomial[j] -= polynomial[j - 1];
  }
  std::vector<double> out;
  for (size_t i = 1; i < polynomial.size(); ++i)
    out.push_back(-polynomial[i]);
  return out;
}

/// Continues the columns of `differences` (foreseen) after the last rows of `window`, undoing d differences.
Eigen::MatrixXd integrated(const Eigen::MatrixXd& window, Eigen::MatrixXd foreseen, int d) {
  if (d == 0) return foreseen;
  // The last value of every difference of lower order, the highest first.
  std::vector<Eigen::RowVectorXd> last;
  Eigen::MatrixXd level = window.bottomRows(d);
  for (int i = 0; i < d; ++i) {
    last.push_back(level.bottomRows(1));
    level = (level.bottomRows(level.rows() - 1) - level.topRows(level.rows() - 1)).eval();
  }
  for (int i = d - 1; i >= 0; --i)
    for (Eigen::Index row = 0; row < foreseen.rows(); ++row) {
      last[static_cast<size_t>(i)] += foreseen.row(row);
      foreseen.row(row) = last[static_cast<size_t>(i)];
    }
  return foreseen;
}

/// Forecasts of several series, a column each, without the mean.
Eigen::MatrixXd foreseen_of(const Model& model, const Eigen::MatrixXd& windows, size_t steps) {
  Eigen::MatrixXd differences = windows;
  for (int i = 0; i < model.order.d; ++i)
    differences =
        (differences.bottomRows(differences.rows() - 1) - differences.topRows(differences.rows() - 1)).eval();
  ArmaFilter filter({.ar = model.ar, .ma = model.ma});
  for (Eigen::Index row = 0; row < differences.rows(); ++row)
    filter.step(differences.row(row));
  return integrated(windows, filter.foreseen(steps), model.order.d);
}

}  // namespace

Result<Model> fit(std::span<const double> series, Order order, Likelihood likelihood) {
  KINTSUGI_TRY(check(series, order));
  const std::vector<double> values = differenced(series, order.d);
  const double spread = deviation_of(values);
  if (spread <= 1e-12 * std::max(1.0, std::abs(mean_of(values))))
    return Status(Code::kNotFound, "the series does not move");
  const bool with_mean = order.d == 0;
  const auto judge = [&](const Arma& arma) {
    return (likelihood == Likelihood::kExact ? exact_sums : conditional_sums)(values, arma).judged(with_mean);
  };
  const Arma begin = beginning(values, order);
  std::vector<double> free = free_of(begin.ar);
  const std::vector<double> free_ma = free_of(negative(begin.ma));
  free.insert(free.end(), free_ma.begin(), free_ma.end());
  const Minimum minimum =
      minimise([&](const Eigen::VectorXd& at) { return judge(arma_of(at, order)).cost(); },
               Eigen::Map<const Eigen::VectorXd>(free.data(), static_cast<Eigen::Index>(free.size())));
  const Arma arma = arma_of(minimum.at, order);
  const Judged judged = judge(arma);
  if (!std::isfinite(judged.cost()))
    return Status(Code::kNotFound, "no model of this order suits the series");
  Model out{.order = order, .ar = arma.ar, .ma = arma.ma, .mean = judged.mean, .variance = judged.variance};
  out.log_likelihood = judged.log_likelihood(static_cast<double>(values.size()));
  out.aic = -2 * out.log_likelihood + 2 * (order.p + order.q + (with_mean ? 1 : 0) + 1);
  return out;
}

Result<Model> best_fit(std::span<const double> series, std::span<const Order> orders, Likelihood likelihood) {
  std::optional<Model> best;
  Status why(Code::kInvalidArgument, "no order to try");
  for (const Order& order : orders) {
    Result<Model> model = fit(series, order, likelihood);
    if (!model)
      why = model.error();
    else if (!best || model->aic < best->aic)
      best = std::move(*model);
  }
  if (!best) return why;
  return *std::move(best);
}

int differences_of(std::span<const double> series) {
  int best = 0;
  std::vector<double> values(series.begin(), series.end());
  double least = deviation_of(values);
  for (int d = 1; d <= 2 && values.size() > 2; ++d) {
    values = differenced(values, 1);
    const double spread = deviation_of(values);
    if (spread >= least) break;
    least = spread;
    best = d;
  }
  return best;
}

std::vector<double> forecast(const Model& model, std::span<const double> values,
                             std::span<const double> innovations, size_t steps) {
  const std::vector<double> ar = undifferenced(model);
  double constant = model.mean;
  for (const double each : model.ar)
    constant -= each * model.mean;
  std::vector<double> all(values.begin(), values.end());
  std::vector<double> errors(innovations.begin(), innovations.end());
  for (size_t step = 0; step < steps; ++step) {
    double next = constant;
    for (size_t i = 0; i < ar.size(); ++i)
      next += ar[i] * all[all.size() - 1 - i];
    for (size_t i = 0; i < model.ma.size(); ++i)
      next += model.ma[i] * errors[errors.size() - 1 - i];
    all.push_back(next);
    errors.push_back(0);
  }
  return {all.end() - static_cast<std::ptrdiff_t>(steps), all.end()};
}

std::vector<double> forecast(const Model& model, std::span<const double> values, size_t steps) {
  const Eigen::Map<const Eigen::VectorXd> window(values.data(), static_cast<Eigen::Index>(values.size()));
  const Eigen::MatrixXd foreseen = foreseen_of(model, window.array() - model.mean, steps);
  std::vector<double> out;
  for (Eigen::Index i = 0; i < foreseen.rows(); ++i)
    out.push_back(foreseen(i, 0) + model.mean);
  return out;
}

Forecaster forecaster(const Model& model, size_t window, size_t steps) {
  const auto rows = static_cast<Eigen::Index>(window);
  const Eigen::MatrixXd weights = foreseen_of(model, Eigen::MatrixXd::Identity(rows, rows), steps);
  Forecaster out{.weights = weights.cast<float>(), .constant = {}};
  out.constant = (model.mean * (1 - weights.rowwise().sum().array())).matrix().cast<float>();
  return out;
}

}  // namespace kintsugi::augury
