/// Cross-validation of linear fits: the executions in parts, and what is fitted while each of them is left out.
#pragma once

#include <vector>

#include <Eigen/Dense>

#include "monitoring/behaviour/lasso.h"

namespace kintsugi::behaviour {

struct Folds {
  std::vector<std::vector<Eigen::Index>> members;  ///< index: fold; the executions in it
  std::vector<Eigen::MatrixXd> rows;               ///< index: fold; rows of its executions
  std::vector<Moments> moments;                    ///< index: fold
  Moments all;

  /// At most `parts`, drawn by the seed. REQUIRES: a row, a target and a weight for each execution.
  Folds(const Eigen::MatrixXd& rows_of_all, const Eigen::VectorXd& target, const Eigen::VectorXd& weights,
        size_t parts, uint64_t seed);
  /// How many parts are left out in turn: none of a single one.
  size_t left_out() const { return members.size() > 1 ? members.size() : 0; }
};

struct HeldOut {
  std::vector<std::vector<Line>> lines;       ///< index: the fold that is left out, then the penalty
  std::vector<std::vector<double>> residues;  ///< mean squares in a fold; index: penalty, then fold

  /// `sparing`: the terms that a penalty keeps are fitted again without it.
  HeldOut(const Folds& folds, const std::vector<double>& penalties, bool sparing);
  /// The penalty with the smallest residues.
  size_t best() const;
};

}  // namespace kintsugi::behaviour
