/// Runs what models are trained on, and fits them.
#pragma once

#include <array>
#include <numeric>
#include <set>

#include <Eigen/Dense>

#include "repair_manager/what_if/placement_bound.h"
#include "tests/benchmarks/opprox/decision_tree.h"
#include "tests/benchmarks/opprox/models.h"
#include "tests/benchmarks/opprox/phases.h"
#include "tests/benchmarks/opprox/runs.h"

namespace kintsugi::what_if {

inline constexpr size_t kPhases = 4, kSparse = 12, kClasses = 3;
/// Levels of a block that are run with the others exact. The other levels come up among the sparse settings.
inline constexpr std::array<uint8_t, 3> kAlone{1, 3, 5};

/// k times the lost bytes over all links: what the closed form is without places.
inline double bound_of(const Input& input) {
  const Cluster cluster = cluster_of(input);
  double up = 0;
  for (uint32_t i = input.dead; i < input.servers; ++i)
    up += cluster.servers[i].up;
  const double chunks = static_cast<double>(input.lost * input.dead);
  return cluster.policy.k * chunks * kChunkBytes / up;
}

class Trained {
 public:
  explicit Trained(Runs& runs) : inputs_(training_inputs()) {
    for (const Input& input : inputs_)
      runs.run(input, {});
    fit_weights(runs);
    choose_phases(runs);
    std::vector<std::vector<double>> features;
    std::vector<size_t> classes;
    for (const Input& input : inputs_) {
      features.push_back(features_of(input));
      classes.push_back(class_of(input));
    }
    tree_ = opprox::DecisionTree::grow(features, classes);
    for (size_t number = 0; number < kClasses; ++number)
      fit_class(runs, number);
    fit_bound(runs);
  }

  size_t predicted_class(const Input& input) const { return tree_->class_of(features_of(input)); }
  /// It is known before anything is run.
  bool extrapolates(const Input& input) const {
    const std::vector<double> mine = range_of(input);
    std::vector<double> least = mine, most = mine;
    bool first = true;
    for (const Input& trained : inputs_) {
      if (class_of(trained) != class_of(input)) continue;
      const std::vector<double> range = range_of(trained);
      for (size_t i = 0; i < range.size(); ++i) {
        least[i] = first ? range[i] : std::min(least[i], range[i]);
        most[i] = first ? range[i] : std::max(most[i], range[i]);
      }
      first = false;
    }
    for (size_t i = 0; i < mine.size(); ++i) {
      const double slack = kSlack * (most[i] - least[i]) + 1e-9;
      if (mine[i] < least[i] - slack || mine[i] > most[i] + slack) return true;
    }
    return false;
  }
  WhatIfKnobs choose(const Input& input, const Choice& choice) const {
    if (choice.exact_beyond && extrapolates(input)) return {};
    return classes_[predicted_class(input)].choose(features_of(input), choice);
  }
  double bound_factor() const { return bound_factor_; }

  void print() const {
    fmt::print("work: {:.2f} us a turn, {:.4f} a share, {:.1f} a plan\n", 1e6 * weights_.turn,
               1e6 * weights_.share, 1e6 * weights_.plan);
    fmt::print("algorithm 6: {} phases; differences", phase_choice_.phases);
    for (const double difference : phase_choice_.differences)
      fmt::print(" {:.2f}", difference);
    fmt::print("\nclasses: {} leaves\n", tree_->leaves());
    for (size_t number = 0; number < kClasses; ++number) {
      const ClassModel& model = classes_[number];
      fmt::print("class {}: errors of phases add up with R2 {:.2f}, times {:.2f}\n", number,
                 model.joint_determination, model.joint_error);
      for (size_t phase = 0; phase < model.phases.size(); ++phase) {
        const PhaseModel& one = model.phases[phase];
        fmt::print(
            "  phase {}: return {:.3f}; R2, degree, largest error: saved {:.2f} {} {:.3f}; error {:.2f} {} "
            "{:.2f}; turns {:.2f} {} {:.2f}\n",
            phase, one.return_on_investment(), one.saved().model().determination(),
            one.saved().model().degree(), one.saved().model().error_of_share(1),
            one.error().model().determination(), one.error().model().degree(),
            one.error().model().error_of_share(1), one.turns().model().determination(),
            one.turns().model().degree(), one.turns().model().error_of_share(1));
      }
    }
    fmt::print("mean error by phase and block at levels 1-5:\n");
    for (size_t number = 0; number < kClasses; ++number)
      for (size_t phase = 0; phase < kPhases; ++phase) {
        fmt::print("  class {} phase {}:", number, phase);
        for (size_t block = 0; block < kBlocks; ++block)
          fmt::print("  {}", means_[number][phase][block]);
        fmt::print("\n");
      }
  }

 private:
  // Numbers of servers and chunks are drawn: those of a test may be a little beyond those of training.
  static constexpr double kSlack = 0.1;

  /// Weights of work, by least squares over the exact runs; none is negative.
  void fit_weights(Runs& runs) {
    const auto count = static_cast<Eigen::Index>(inputs_.size());
    Eigen::MatrixXd rows(count, 3);
    Eigen::VectorXd seconds(count);
    for (Eigen::Index i = 0; i < count; ++i) {
      const RunResult& exact = runs.run(inputs_[static_cast<size_t>(i)], {});
      // Each input counts as much as the others, however large it is.
      rows.row(i) << static_cast<double>(exact.work.turns), static_cast<double>(exact.work.shares),
          static_cast<double>(exact.work.plans);
      rows.row(i) /= exact.cpu;
      seconds(i) = 1;
    }
    std::vector<Eigen::Index> kept{0, 1, 2};
    Eigen::VectorXd found;
    for (bool negative = true; negative;) {
      Eigen::MatrixXd some(count, static_cast<Eigen::Index>(kept.size()));
      for (size_t c = 0; c < kept.size(); ++c)
        some.col(static_cast<Eigen::Index>(c)) = rows.col(kept[c]);
      found = some.colPivHouseholderQr().solve(seconds);
      Eigen::Index worst = 0;
      negative = found.minCoeff(&worst) < 0;
      if (negative) kept.erase(kept.begin() + worst);
    }
    std::array<double, 3> weights{};
    for (size_t c = 0; c < kept.size(); ++c)
      weights[static_cast<size_t>(kept[c])] = found(static_cast<Eigen::Index>(c));
    weights_ = {.turn = weights[0], .share = weights[1], .plan = weights[2]};
  }

  /// Algorithm 6, on the smallest input of each mix and code, with all blocks at a middle level.
  void choose_phases(Runs& runs) {
    phase_choice_ = opprox::choose_phases({.most = 8, .threshold = 1}, [&](size_t phases) {
      std::vector<double> means(phases, 0.0);
      for (size_t i = 0; i < inputs_.size(); i += 3)
        for (size_t phase = 0; phase < phases; ++phase) {
          WhatIfKnobs knobs{std::vector<Levels>(phases)};
          knobs.phases[phase].fill(3);
          const Outputs& exact = runs.run(inputs_[i], {}).outputs;
          means[phase] += error_of(runs.run(inputs_[i], knobs).outputs, exact) / 9;
        }
      return opprox::largest_difference(means);
    });
  }

  static std::vector<Levels> settings_of(Draws& draws) {
    std::vector<Levels> settings;
    for (size_t block = 0; block < kBlocks; ++block)
      for (const uint8_t level : kAlone) {
        Levels levels{};
        levels[block] = level;
        settings.push_back(levels);
      }
    for (size_t i = 0; i < kSparse; ++i) {
      Levels levels;
      for (uint8_t& level : levels)
        level = static_cast<uint8_t>(draws.below(kLevels));
      settings.push_back(levels);
    }
    return settings;
  }

  Observation observe(Runs& runs, size_t input, const WhatIfKnobs& knobs, const Levels& levels) const {
    const RunResult exact = runs.run(inputs_[input], {});
    const RunResult& coarse = runs.run(inputs_[input], knobs);
    return {.input = input,
            .features = features_of(inputs_[input]),
            .levels = levels,
            .saved = 1 - weights_.of(coarse.work) / weights_.of(exact.work),
            .error = error_of(coarse.outputs, exact.outputs),
            .turns = static_cast<double>(coarse.work.turns) / static_cast<double>(exact.work.turns)};
  }

  void fit_class(Runs& runs, size_t number) {
    std::vector<std::vector<Observation>> by_phase(kPhases);
    std::vector<double> sums, together;
    for (size_t input = 0; input < inputs_.size(); ++input) {
      if (class_of(inputs_[input]) != number) continue;
      Draws draws(4000 + input);
      std::vector<WhatIfKnobs> sparse(kSparse);
      std::vector<double> sum(kSparse, 0.0);
      for (size_t phase = 0; phase < kPhases; ++phase) {
        const std::vector<Levels> settings = settings_of(draws);
        for (size_t i = 0; i < settings.size(); ++i) {
          WhatIfKnobs knobs{std::vector<Levels>(kPhases)};
          knobs.phases[phase] = settings[i];
          by_phase[phase].push_back(observe(runs, input, knobs, settings[i]));
          if (i + kSparse < settings.size()) continue;
          const size_t which = i + kSparse - settings.size();
          sparse[which].phases.push_back(settings[i]);
          sum[which] += by_phase[phase].back().error;
        }
      }
      for (size_t i = 0; i < kSparse; ++i) {
        sums.push_back(sum[i]);
        together.push_back(observe(runs, input, sparse[i], {}).error);
      }
    }
    ClassModel& model = classes_.emplace_back();
    for (const std::vector<Observation>& observations : by_phase)
      model.phases.emplace_back().fit(observations);
    note_means(by_phase);
    note_additivity(sums, together, model);
  }

  void note_means(const std::vector<std::vector<Observation>>& by_phase) {
    auto& texts = means_.emplace_back();
    for (const std::vector<Observation>& observations : by_phase) {
      auto& of_blocks = texts.emplace_back();
      for (size_t block = 0; block < kBlocks; ++block) {
        double error = 0, saved = 0, count = 0;
        for (const Observation& one : observations) {
          const auto others = std::accumulate(one.levels.begin(), one.levels.end(), 0) - one.levels[block];
          if (one.levels[block] == 0 || others > 0) continue;
          error += one.error;
          saved += one.saved;
          ++count;
        }
        of_blocks.push_back(fmt::format("{:.2f} % saves {:.3f}", error / count, saved / count));
      }
    }
  }

  /// Errors of phases ought to add up. The factor is what 95 of 100 runs stay below.
  static void note_additivity(const std::vector<double>& sums, const std::vector<double>& together,
                              ClassModel& model) {
    const auto count = static_cast<double>(sums.size());
    const double mean = std::accumulate(together.begin(), together.end(), 0.0) / count;
    double residues = 0, spread = 0;
    std::vector<double> factors;
    for (size_t i = 0; i < sums.size(); ++i) {
      residues += std::pow(together[i] - sums[i], 2);
      spread += std::pow(together[i] - mean, 2);
      if (sums[i] > 0.5) factors.push_back(together[i] / sums[i]);
    }
    model.joint_determination = 1 - residues / spread;
    std::ranges::sort(factors);
    if (!factors.empty()) model.joint_error = std::max(1.0, factors[factors.size() * 95 / 100]);
  }

  void fit_bound(Runs& runs) {
    double sum = 0;
    for (const Input& input : inputs_)
      sum += std::log(runs.run(input, {}).outputs.values[Outputs::kAll] / bound_of(input));
    bound_factor_ = std::exp(sum / static_cast<double>(inputs_.size()));
  }

  const std::vector<Input> inputs_;
  WorkWeights weights_;
  opprox::PhaseChoice phase_choice_;
  std::optional<opprox::DecisionTree> tree_;
  std::vector<ClassModel> classes_;
  std::vector<std::vector<std::vector<std::string>>> means_;  // index: class, phase, block
  double bound_factor_ = 1;
};

}  // namespace kintsugi::what_if
