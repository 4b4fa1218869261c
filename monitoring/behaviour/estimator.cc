#include "monitoring/behaviour/estimator.h"

#include <algorithm>
#include <cmath>

#include <Eigen/Cholesky>

#include "common/base/statistics.h"

namespace kintsugi::behaviour {
namespace {

/// Candidate positions that are tried along an input before the best one is made exact.
constexpr size_t kCoarseCuts = 32;

/// The squared error that is left by least squares with the sums of products of [terms…, target].
double error_left(const Eigen::MatrixXd& sums) {
  const auto terms = sums.rows() - 1;
  Eigen::MatrixXd matrix = sums.topLeftCorner(terms, terms);
  matrix.diagonal().array() += 1e-9 * matrix.diagonal().array() + 1e-12;
  const Eigen::VectorXd right = sums.col(terms).head(terms);
  return std::max(0.0, sums(terms, terms) - right.dot(matrix.ldlt().solve(right)));
}

std::pair<Samples, Samples> parted(const Samples& samples, const Split& split) {
  std::vector<size_t> low, high;
  for (size_t i = 0; i < samples.size(); ++i)
    (samples.inputs[split.input][i] <= split.at ? low : high).push_back(i);
  return {samples.select(low), samples.select(high)};
}

bool judged_by_logarithm(const Samples& samples, const FitSettings& settings) {
  return settings.choose_form && all_positive(samples);
}

}  // namespace

std::optional<Split> find_split(const Samples& samples, size_t input, const FitSettings& settings) {
  const size_t n = samples.size(), features = samples.features();
  if (n < 2 * settings.least_side) return std::nullopt;
  const bool logs = judged_by_logarithm(samples, settings);
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i)
    order[i] = i;
  const auto& along = samples.inputs[input];
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return along[a] < along[b]; });

  // Rows of [1, every input, the square and the cube of this one, target], in the order of the input.
  const auto width = static_cast<Eigen::Index>(features) + 4;
  Eigen::MatrixXd rows(static_cast<Eigen::Index>(n), width);
  rows.col(0).setOnes();
  for (size_t f = 0; f < features; ++f) {
    const double centre = mean_of(samples.inputs[f]), deviation = deviation_of(samples.inputs[f]);
    for (size_t i = 0; i < n; ++i)
      rows(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(f) + 1) =
          deviation > 0 ? (samples.inputs[f][order[i]] - centre) / deviation : 0;
  }
  const auto own = rows.col(static_cast<Eigen::Index>(input) + 1).array();
  rows.col(width - 3) = own.square();
  rows.col(width - 2) = own.cube();
  for (size_t i = 0; i < n; ++i) {
    const double value = samples.observed[order[i]];
    rows(static_cast<Eigen::Index>(i), width - 1) = logs ? std::log2(value) : value;
  }
  const Eigen::MatrixXd all = rows.transpose() * rows;
  const double whole = error_left(all);

  double best = whole;
  size_t best_cut = 0;
  const auto search = [&](size_t first, size_t last, size_t step) {
    Eigen::MatrixXd low = rows.topRows(static_cast<Eigen::Index>(first)).transpose() *
                          rows.topRows(static_cast<Eigen::Index>(first));
    for (size_t cut = first; cut <= last; cut += step) {
      if (cut > first)
        for (size_t i = cut - step; i < cut; ++i)
          low.noalias() +=
              rows.row(static_cast<Eigen::Index>(i)).transpose() * rows.row(static_cast<Eigen::Index>(i));
      if (along[order[cut - 1]] == along[order[cut]]) continue;  // equal values must be on the same side
      if (const double error = error_left(low) + error_left(all - low); error < best) {
        best = error;
        best_cut = cut;
      }
    }
  };
  const size_t first = settings.least_side, last = n - settings.least_side;
  const size_t step = std::max<size_t>(1, (last - first) / kCoarseCuts);
  search(first, last, step);
  if (best_cut == 0 && step > 1) search(first, last, std::max<size_t>(1, step / 4));
  if (best_cut == 0) return std::nullopt;
  if (step > 1)
    search(std::max(first, best_cut - std::min(best_cut, step)), std::min(last, best_cut + step), 1);
  if (best > whole * (1 - settings.split_gain / 2)) return std::nullopt;
  return Split{.input = input, .at = (along[order[best_cut - 1]] + along[order[best_cut]]) / 2};
}

double Estimator::squared_error(const Node& node) {
  return node.split ? squared_error(*node.low) + squared_error(*node.high) : node.section.squared_error();
}

std::unique_ptr<Estimator::Node> Estimator::grow(const Samples& samples, const FitSettings& settings,
                                                 size_t depth) {
  auto node = std::make_unique<Node>();
  node->section = Section::fit(samples, settings);
  if (depth >= settings.split_depth || samples.size() < 2 * settings.least_side) return node;
  double best = node->section.squared_error() * (1 - settings.split_gain);
  std::optional<Split> chosen;
  for (size_t f = 0; f < samples.features(); ++f) {
    const auto split = find_split(samples, f, settings);
    if (!split) continue;
    const auto [low, high] = parted(samples, *split);
    if (low.size() < settings.least_side || high.size() < settings.least_side) continue;
    const double error =
        Section::fit(low, settings).squared_error() + Section::fit(high, settings).squared_error();
    if (error > best) continue;
    best = error;
    chosen = split;
  }
  if (!chosen) return node;
  const auto [low, high] = parted(samples, *chosen);
  node->split = chosen;
  node->low = grow(low, settings, depth + 1);
  node->high = grow(high, settings, depth + 1);
  return node;
}

Estimator Estimator::fit(const Samples& samples, const FitSettings& settings) {
  Estimator out;
  auto root = grow(samples, settings, 0);
  std::vector<double> judged = samples.observed;
  if (judged_by_logarithm(samples, settings))
    for (double& value : judged)
      value = std::log2(value);
  const double deviation = deviation_of(judged),
               squares = deviation * deviation * static_cast<double>(judged.size());
  out.r2_ = squares > 0 ? 1 - squared_error(*root) / squares : 0;
  out.root_ = std::move(root);
  return out;
}

std::unique_ptr<Estimator::Node> Estimator::copy(const Node& node) {
  auto out = std::make_unique<Node>();
  out->section = node.section;
  out->split = node.split;
  if (node.split) {
    out->low = copy(*node.low);
    out->high = copy(*node.high);
  }
  return out;
}

std::unique_ptr<Estimator::Node> Estimator::refit(const Node& node, const Samples& samples) {
  auto out = std::make_unique<Node>();
  out->split = node.split;
  out->section = node.section;
  if (node.split) {
    const auto [low, high] = parted(samples, *node.split);
    out->low = refit(*node.low, low);
    out->high = refit(*node.high, high);
  } else if (samples.size() > node.section.terms_used() + 2) {
    out->section = node.section.refit(samples);
  }
  return out;
}

Estimator Estimator::refit(const Samples& samples) const {
  Estimator out;
  out.r2_ = r2_;
  out.root_ = refit(*root_, samples);
  return out;
}

Estimator Estimator::with_region(size_t input, double low, double high, const Samples& samples,
                                 const FitSettings& settings) const {
  auto inside = std::make_unique<Node>();
  inside->section = Section::fit(samples, settings);
  auto upto_high = std::make_unique<Node>();
  upto_high->split = Split{.input = input, .at = low};
  upto_high->low = copy(*root_);
  upto_high->high = std::move(inside);
  auto root = std::make_unique<Node>();
  root->split = Split{.input = input, .at = high};
  root->low = std::move(upto_high);
  root->high = copy(*root_);
  Estimator out;
  out.r2_ = r2_;
  out.root_ = std::move(root);
  return out;
}

const Section& Estimator::section(std::span<const double> inputs) const {
  const Node* node = root_.get();
  while (node->split)
    node = inputs[node->split->input] <= node->split->at ? node->low.get() : node->high.get();
  return node->section;
}

double Estimator::predict(std::span<const double> inputs) const {
  return section(inputs).predict(inputs);
}

std::vector<Split> Estimator::splits() const {
  std::vector<Split> out;
  std::vector<const Node*> open{root_.get()};
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (!node->split) continue;
    out.push_back(*node->split);
    open.push_back(node->high.get());
    open.push_back(node->low.get());
  }
  return out;
}

size_t Estimator::sections() const {
  return splits().size() + 1;
}

}  // namespace kintsugi::behaviour
