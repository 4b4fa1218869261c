#include "monitoring/behaviour/held_out.h"

#include <algorithm>

#include "common/base/draws.h"
#include "common/base/statistics.h"

namespace kintsugi::behaviour {

Folds::Folds(const Eigen::MatrixXd& rows_of_all, const Eigen::VectorXd& target,
             const Eigen::VectorXd& weights, size_t parts, uint64_t seed)
    : all(static_cast<size_t>(rows_of_all.cols())) {
  const auto n = static_cast<size_t>(rows_of_all.rows());
  Draws draws(seed);
  const auto order = draws.permutation(n);
  members.resize(std::min(parts, n));
  for (size_t i = 0; i < n; ++i)
    members[i % members.size()].push_back(static_cast<Eigen::Index>(order[i]));
  for (const auto& member : members) {
    rows.emplace_back(rows_of_all(member, Eigen::all));
    Moments part(static_cast<size_t>(rows_of_all.cols()));
    part.add(rows.back(), target(member), weights(member));
    all += part;
    moments.push_back(std::move(part));
  }
}

HeldOut::HeldOut(const Folds& folds, const std::vector<double>& penalties, bool sparing)
    : lines(folds.members.size()), residues(penalties.size(), std::vector<double>(folds.members.size(), 0)) {
  for (size_t fold = 0; fold < folds.left_out(); ++fold) {
    Moments rest = folds.all;
    rest -= folds.moments[fold];
    Lasso lasso(rest);
    for (size_t p = 0; p < penalties.size(); ++p) {
      lasso.solve(penalties[p]);
      const Line& line = lines[fold].emplace_back(sparing ? lasso.relaxed() : lasso.line());
      residues[p][fold] = folds.moments[fold].residual_squares(line.coefficients, line.intercept) /
                          std::max(folds.moments[fold].rows(), 1e-300);
    }
  }
}

size_t HeldOut::best() const {
  size_t best = 0;
  for (size_t p = 1; p < residues.size(); ++p)
    if (mean_of(residues[p]) < mean_of(residues[best])) best = p;
  return best;
}

}  // namespace kintsugi::behaviour
