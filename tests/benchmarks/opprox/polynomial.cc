#include "tests/benchmarks/opprox/polynomial.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <Eigen/Dense>

#include "common/base/assert.h"
#include "common/base/draws.h"

namespace kintsugi::opprox {
namespace {

// Keeps terms that say the same from having huge coefficients of opposite signs.
constexpr double kRidge = 1e-8;

/// Powers of all terms up to a degree, the constant first.
std::vector<std::vector<uint8_t>> powers_up_to(size_t features, size_t degree) {
  std::vector<std::vector<uint8_t>> all{std::vector<uint8_t>(features, 0)};
  // Each term of one degree more is one of before times a feature that is not before its last one.
  size_t from = 0;
  for (size_t d = 1; d <= degree; ++d) {
    const size_t to = all.size();
    for (size_t i = from; i < to; ++i) {
      const std::vector<uint8_t> base = all[i];
      const auto last = std::find_if(base.rbegin(), base.rend(), [](uint8_t power) { return power > 0; });
      const auto first = last == base.rend() ? 0 : static_cast<size_t>(base.rend() - last) - 1;
      for (size_t f = first; f < features; ++f) {
        all.push_back(base);
        ++all.back()[f];
      }
    }
    from = to;
  }
  return all;
}

double term(std::span<const double> row, const std::vector<uint8_t>& powers) {
  double product = 1;
  for (size_t f = 0; f < row.size(); ++f)
    for (uint8_t i = 0; i < powers[f]; ++i)
      product *= row[f];
  return product;
}

using Indexes = std::vector<size_t>;

/// Rows in their folds: a group is in one fold as a whole.
std::vector<size_t> folds_of(size_t rows, const FitSettings& settings) {
  Indexes groups = settings.groups;
  if (groups.empty()) {
    groups.resize(rows);
    std::iota(groups.begin(), groups.end(), 0);
  }
  const size_t number = *std::ranges::max_element(groups) + 1;
  Draws draws(settings.seed);
  const Indexes order = draws.permutation(number);
  for (size_t& group : groups)
    group = order[group] % settings.folds;
  return groups;
}

struct Table {
  std::span<const Row> rows;
  std::span<const double> targets;

  Polynomial fit(const Indexes& chosen, size_t degree) const {
    std::vector<Row> some;
    std::vector<double> wanted;
    for (const size_t i : chosen) {
      some.push_back(rows[i]);
      wanted.push_back(targets[i]);
    }
    return Polynomial::fit(some, wanted, degree);
  }
};

/// The prediction for each of the chosen rows by a polynomial that was fitted without its fold.
std::optional<std::vector<double>> held_out(const Table& table, const Indexes& chosen,
                                            std::span<const size_t> folds, size_t degree) {
  std::vector<double> predicted(chosen.size(), 0.0);
  const size_t terms = Polynomial::terms(table.rows.front().size(), degree);
  const size_t last = *std::ranges::max_element(folds);
  for (size_t fold = 0; fold <= last; ++fold) {
    Indexes others;
    for (const size_t i : chosen)
      if (folds[i] != fold) others.push_back(i);
    if (others.size() == chosen.size()) continue;
    if (others.size() < terms + 1) return std::nullopt;
    const Polynomial polynomial = table.fit(others, degree);
    for (size_t i = 0; i < chosen.size(); ++i)
      if (folds[chosen[i]] == fold) predicted[i] = polynomial.at(table.rows[chosen[i]]);
  }
  return predicted;
}

double squares(const Table& table, const Indexes& chosen, const std::vector<double>& predicted) {
  double sum = 0;
  for (size_t i = 0; i < chosen.size(); ++i)
    sum += std::pow(table.targets[chosen[i]] - predicted[i], 2);
  return sum;
}

struct Found {
  size_t degree = 0;
  std::vector<double> predicted;
  double squares = std::numeric_limits<double>::infinity();
};

/// The smallest degree whose sum of squares is below `enough`, or else the best one.
Found find_degree(const Table& table, const Indexes& chosen, std::span<const size_t> folds,
                  const FitSettings& settings, double enough) {
  Found best;
  for (size_t degree = 0; degree <= settings.most_degree; ++degree) {
    const auto predicted = held_out(table, chosen, folds, degree);
    if (!predicted) break;
    const double sum = squares(table, chosen, *predicted);
    if (sum < best.squares) best = {degree, *predicted, sum};
    if (best.squares < enough) break;
  }
  return best;
}

/// One way to cut the rows: into one part, or by the values of a feature.
struct Way {
  std::optional<size_t> feature;
  std::vector<Indexes> parts;
  std::vector<Found> found;  // of each part
  double squares = 0;
};

/// The rows in parts of about equal size by the values of a feature. Rows with the same value are in the same part.
std::vector<Indexes> cut(const Table& table, std::optional<size_t> feature, size_t number) {
  Indexes order(table.rows.size());
  std::iota(order.begin(), order.end(), 0);
  if (!feature) return {order};
  std::ranges::stable_sort(order, {}, [&](size_t i) { return table.rows[i][*feature]; });
  std::vector<Indexes> parts;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool same = i > 0 && table.rows[order[i]][*feature] == table.rows[order[i - 1]][*feature];
    if (!same && parts.size() <= i * number / order.size()) parts.emplace_back();
    parts.back().push_back(order[i]);
  }
  return parts;
}

class WaySearch {
 public:
  WaySearch(const Table& table, const FitSettings& settings)
      : table_(table), settings_(settings), folds_(folds_of(table.rows.size(), settings)) {
    const auto count = static_cast<double>(table.targets.size());
    const double mean = std::accumulate(table.targets.begin(), table.targets.end(), 0.0) / count;
    for (const double target : table.targets)
      spread_ += (target - mean) * (target - mean);
  }

  double spread() const { return spread_; }

  Way best() const {
    const double enough = spread_ * (1 - settings_.enough);
    Way best = try_out(std::nullopt, 1);
    for (size_t parts = 2; parts <= settings_.most_parts && best.squares > enough; ++parts)
      for (size_t feature = 0; feature < table_.rows.front().size(); ++feature)
        if (Way way = try_out(feature, parts); way.parts.size() == parts && way.squares < best.squares)
          best = std::move(way);
    return best;
  }

 private:
  Way try_out(std::optional<size_t> feature, size_t number) const {
    Way way{.feature = feature, .parts = cut(table_, feature, number)};
    for (const Indexes& part : way.parts) {
      const double share = static_cast<double>(part.size()) / static_cast<double>(table_.rows.size());
      way.found.push_back(
          find_degree(table_, part, folds_, settings_, spread_ * (1 - settings_.enough) * share));
      way.squares += way.found.back().squares;
    }
    return way;
  }

  const Table& table_;
  const FitSettings& settings_;
  const std::vector<size_t> folds_;
  double spread_ = 0;  // squares of the targets around their mean
};

}  // namespace

size_t Polynomial::terms(size_t features, size_t degree) {
  double number = 1;
  for (size_t i = 1; i <= features; ++i)
    number = number * static_cast<double>(degree + i) / static_cast<double>(i);
  return static_cast<size_t>(std::min(number + 0.5, 1e9));
}

Polynomial Polynomial::fit(std::span<const Row> rows, std::span<const double> targets, size_t degree) {
  KINTSUGI_ASSERT(!rows.empty() && rows.size() == targets.size());
  Polynomial made;
  made.degree_ = degree;
  const size_t features = rows.front().size();
  for (size_t f = 0; f < features; ++f) {
    const auto [low, high] = std::ranges::minmax_element(rows, {}, [f](const Row& row) { return row[f]; });
    made.center_.push_back(((*low)[f] + (*high)[f]) / 2);
    made.scale_.push_back(std::max(((*high)[f] - (*low)[f]) / 2, 1e-12));
  }
  made.powers_ = powers_up_to(features, degree);
  const auto terms = static_cast<Eigen::Index>(made.powers_.size());
  const auto count = static_cast<Eigen::Index>(rows.size());
  Eigen::MatrixXd matrix(count, terms);
  Row scaled(features);
  for (Eigen::Index r = 0; r < count; ++r) {
    for (size_t f = 0; f < features; ++f)
      scaled[f] = (rows[static_cast<size_t>(r)][f] - made.center_[f]) / made.scale_[f];
    for (Eigen::Index t = 0; t < terms; ++t)
      matrix(r, t) = term(scaled, made.powers_[static_cast<size_t>(t)]);
  }
  const Eigen::Map<const Eigen::VectorXd> wanted(targets.data(), count);
  Eigen::MatrixXd square = matrix.transpose() * matrix;
  square.diagonal().array() += kRidge * static_cast<double>(count);
  const Eigen::VectorXd solved = square.ldlt().solve(matrix.transpose() * wanted);
  made.coefficients_.assign(solved.begin(), solved.end());
  return made;
}

double Polynomial::at(std::span<const double> row) const {
  Row scaled(row.size());
  // Far beyond what was seen a polynomial says nothing: it goes on as it was at the border.
  for (size_t f = 0; f < row.size(); ++f)
    scaled[f] = std::clamp((row[f] - center_[f]) / scale_[f], -1.0, 1.0);
  double sum = 0;
  for (size_t t = 0; t < powers_.size(); ++t)
    sum += coefficients_[t] * term(scaled, powers_[t]);
  return sum;
}

Model Model::fit(std::span<const Row> rows, std::span<const double> targets, const FitSettings& settings) {
  KINTSUGI_ASSERT(!rows.empty() && rows.size() == targets.size());
  const Table table{rows, targets};
  const WaySearch search(table, settings);
  const Way way = search.best();
  Model model;
  model.split_ = way.feature;
  model.determination_ = search.spread() > 0 ? 1 - way.squares / search.spread() : 1;
  for (size_t p = 0; p < way.parts.size(); ++p) {
    const Indexes& part = way.parts[p];
    const Found& found = way.found[p];
    if (p > 0) {
      const size_t f = *way.feature;
      model.cuts_.push_back((rows[way.parts[p - 1].back()][f] + rows[part.front()][f]) / 2);
    }
    model.parts_.push_back(table.fit(part, found.degree));
    for (size_t i = 0; i < found.predicted.size(); ++i)
      model.errors_.push_back(std::abs(targets[part[i]] - found.predicted[i]));
  }
  std::ranges::sort(model.errors_);
  return model;
}

double Model::at(std::span<const double> row) const {
  if (!split_) return parts_.front().at(row);
  const auto part = std::ranges::upper_bound(cuts_, row[*split_]) - cuts_.begin();
  return parts_[static_cast<size_t>(part)].at(row);
}

double Model::error_of_share(double share) const {
  if (errors_.empty()) return 0;
  const double at = std::ceil(share * static_cast<double>(errors_.size())) - 1;
  return errors_[static_cast<size_t>(std::clamp(at, 0.0, static_cast<double>(errors_.size() - 1)))];
}

size_t Model::degree() const {
  return std::ranges::max(parts_, {}, &Polynomial::degree).degree();
}

}  // namespace kintsugi::opprox
