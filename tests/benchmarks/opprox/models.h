/// Models of what settings of one phase save and cost, for inputs of one class: local ones of each block, and one of all
/// blocks that builds on these and on the number of turns of the simulation (Mitra 2016, section 5.3.6).
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "monitoring/behaviour/mic.h"
#include "repair_manager/what_if/knobs.h"
#include "tests/benchmarks/opprox/association.h"
#include "tests/benchmarks/opprox/budget.h"
#include "tests/benchmarks/opprox/polynomial.h"

namespace kintsugi::what_if {

/// A run in which one phase was coarse.
struct Observation {
  size_t input = 0;
  std::vector<double> features;  // of the input
  Levels levels{};
  double saved = 0;  // part of the exact run's work
  double error = 0;  // in percent
  double turns = 1;  // of the simulation, over those of the exact run
};

/// A model over the features that are associated with its target.
class AssociatedModel {
 public:
  void fit(const std::vector<opprox::Row>& rows, const std::vector<double>& targets,
           const std::vector<size_t>& groups) {
    // The coefficient takes time that grows with the square of the rows.
    constexpr size_t kMostRows = 150;
    const size_t step = (rows.size() + kMostRows - 1) / kMostRows;
    std::vector<std::vector<double>> columns(rows.front().size());
    std::vector<double> some;
    for (size_t i = 0; i < rows.size(); i += step) {
      for (size_t f = 0; f < columns.size(); ++f)
        columns[f].push_back(rows[i][f]);
      some.push_back(targets[i]);
    }
    kept_ = opprox::associated(columns, some, behaviour::mic);
    if (kept_.empty()) kept_ = {0};
    std::vector<opprox::Row> chosen;
    for (const opprox::Row& row : rows)
      chosen.push_back(of_kept(row));
    model_ = opprox::Model::fit(chosen, targets, {.most_degree = 4, .groups = groups});
  }
  double at(const opprox::Row& row) const { return model_->at(of_kept(row)); }
  const opprox::Model& model() const { return *model_; }
  const std::vector<size_t>& kept() const { return kept_; }

 private:
  opprox::Row of_kept(const opprox::Row& row) const {
    opprox::Row kept;
    for (const size_t f : kept_)
      kept.push_back(row[f]);
    return kept;
  }

  std::vector<size_t> kept_;
  std::optional<opprox::Model> model_;
};

class PhaseModel {
 public:
  void fit(const std::vector<Observation>& all) {
    std::vector<opprox::Effect> effects;
    for (const Observation& one : all)
      effects.push_back({1 / (1 - std::min(one.saved, 0.99)), one.error});
    for (const opprox::BudgetRule rule : {opprox::BudgetRule::kShared, opprox::BudgetRule::kAsPrinted})
      return_on_investment_[rule] = opprox::return_on_investment(effects, rule);
    for (size_t block = 0; block < kBlocks; ++block) {
      std::vector<opprox::Row> rows;
      std::vector<double> saved, error;
      std::vector<size_t> groups;
      for (const Observation& one : all) {
        if (!only(one.levels, block)) continue;
        rows.push_back(local_row(one.levels[block], one.features));
        saved.push_back(one.saved);
        error.push_back(one.error);
        groups.push_back(one.input);
      }
      local_saved_[block].fit(rows, saved, groups);
      local_error_[block].fit(rows, error, groups);
    }
    std::vector<opprox::Row> levels, saved_rows, error_rows;
    std::vector<double> turns, saved, error;
    std::vector<size_t> groups;
    for (const Observation& one : all) {
      levels.push_back(turns_row(one.levels, one.features));
      turns.push_back(one.turns);
      saved.push_back(one.saved);
      error.push_back(one.error);
      groups.push_back(one.input);
    }
    turns_.fit(levels, turns, groups);
    for (const Observation& one : all) {
      const double predicted = turns_.at(turns_row(one.levels, one.features));
      saved_rows.push_back(overall_row(one.levels, table(local_saved_, one.features), predicted));
      error_rows.push_back(overall_row(one.levels, table(local_error_, one.features), predicted));
    }
    saved_.fit(saved_rows, saved, groups);
    error_.fit(error_rows, error, groups);
  }

  /// `share`: of the predictions in cross-validation whose error the effects allow for.
  std::vector<opprox::Effect> effects(const std::vector<Levels>& settings,
                                      const std::vector<double>& features, double share) const {
    const Table saved_table = table(local_saved_, features), error_table = table(local_error_, features);
    const double unsaved = saved_.model().error_of_share(share), more = error_.model().error_of_share(share);
    std::vector<opprox::Effect> effects;
    for (const Levels& levels : settings) {
      const double turns = turns_.at(turns_row(levels, features));
      const double saved = saved_.at(overall_row(levels, saved_table, turns));
      const double error = error_.at(overall_row(levels, error_table, turns));
      effects.push_back({1 / (1 - std::clamp(saved - unsaved, 0.0, 0.99)), std::max(0.0, error) + more});
    }
    return effects;
  }
  double return_on_investment(opprox::BudgetRule rule = opprox::BudgetRule::kShared) const {
    return return_on_investment_.at(rule);
  }
  const AssociatedModel& saved() const { return saved_; }
  const AssociatedModel& error() const { return error_; }
  const AssociatedModel& turns() const { return turns_; }

 private:
  using Locals = std::array<AssociatedModel, kBlocks>;

  static bool only(const Levels& levels, size_t block) {
    for (size_t other = 0; other < kBlocks; ++other)
      if ((levels[other] > 0) != (other == block)) return false;
    return true;
  }
  static opprox::Row local_row(uint8_t level, const std::vector<double>& features) {
    opprox::Row row{static_cast<double>(level)};
    row.insert(row.end(), features.begin(), features.end());
    return row;
  }
  static opprox::Row turns_row(const Levels& levels, const std::vector<double>& features) {
    opprox::Row row(levels.begin(), levels.end());
    row.insert(row.end(), features.begin(), features.end());
    return row;
  }
  /// What local models say, by block and level.
  using Table = std::array<std::array<double, kLevels>, kBlocks>;
  static Table table(const Locals& locals, const std::vector<double>& features) {
    Table table{};
    for (size_t block = 0; block < kBlocks; ++block)
      for (uint8_t level = 1; level < kLevels; ++level)
        table[block][level] = locals[block].at(local_row(level, features));
    return table;
  }
  static opprox::Row overall_row(const Levels& levels, const Table& table, double turns) {
    opprox::Row row;
    for (size_t block = 0; block < kBlocks; ++block)
      row.push_back(table[block][levels[block]]);
    row.push_back(turns);
    return row;
  }

  std::map<opprox::BudgetRule, double> return_on_investment_;
  Locals local_saved_, local_error_;
  AssociatedModel turns_, saved_, error_;
};

/// How settings are chosen.
struct Choice {
  double budget = 0;  ///< in percent
  double share =
      1;  ///< of the predictions in cross-validation whose error is allowed for; 1: the method's own
  opprox::BudgetRule rule = opprox::BudgetRule::kShared;
  bool exact_beyond = false;  ///< what is beyond the range of training is simulated exactly
};

/// Models of the phases of all inputs of one class.
struct ClassModel {
  std::vector<PhaseModel> phases;
  double joint_error = 1;  ///< error of all phases together over the sum of theirs, which few exceed
  double joint_determination = 0;

  WhatIfKnobs choose(const std::vector<double>& features, const Choice& choice) const {
    const std::vector<Levels> all = all_levels();
    std::vector<opprox::PhaseOptions> options;
    for (const PhaseModel& phase : phases) {
      opprox::PhaseOptions& option = options.emplace_back();
      option.return_on_investment = phase.return_on_investment(choice.rule);
      option.effects = phase.effects(all, features, choice.share);
    }
    // By the letter errors of phases add up.
    const double more = choice.rule == opprox::BudgetRule::kAsPrinted ? 1 : joint_error;
    const opprox::Allotment allotment = opprox::divide_budget(options, choice.budget / more, choice.rule);
    WhatIfKnobs knobs;
    for (const std::optional<size_t>& chosen : allotment.chosen)
      knobs.phases.push_back(chosen ? all[*chosen] : Levels{});
    return knobs;
  }

  /// All settings of a phase but the exact one.
  static std::vector<Levels> all_levels() {
    std::vector<Levels> all;
    for (size_t i = 1; i < kLevels * kLevels * kLevels * kLevels; ++i) {
      Levels levels;
      for (size_t block = 0, rest = i; block < kBlocks; ++block, rest /= kLevels)
        levels[block] = static_cast<uint8_t>(rest % kLevels);
      all.push_back(levels);
    }
    return all;
  }
};

}  // namespace kintsugi::what_if
