// Trains, calibrates and tests models of coarse simulations of losses (Mitra 2016, chapter 5). Resumable: all runs are
// kept in a file, and those that are there are not run again.
//
//   opprox_bench RUNS [train | calibrate | test | agree | oracle]
//
// train: the runs of training. calibrate, test: fits the models, chooses settings, runs and judges them. agree: the
// design without models, which simulates more and more finely until two answers agree. oracle: the best setting for each
// input that is the same in all phases, chosen by its true error (2,580 runs). Without a step: all but the oracle.
#include <cstdio>
#include <numeric>
#include <set>

#include "common/log/log.h"
#include "tests/benchmarks/opprox/decision_tree.h"
#include "tests/benchmarks/opprox/judging.h"
#include "tests/benchmarks/opprox/models.h"
#include "tests/benchmarks/opprox/phases.h"
#include "tests/benchmarks/opprox/training.h"

namespace kintsugi::what_if {
namespace {

constexpr std::array<double, 3> kBudgets{5, 10, 20};

/// Which share of the predictions in cross-validation the settings allow for: the least of these with which nothing
/// exceeds its budget on the inputs for calibration. 1 is the method's own.
double calibrated_share(Runs& runs, const Trained& trained) {
  const Judged judged(runs, calibration_inputs());
  double best = 1;
  for (const double share : {1.0, 0.99, 0.95, 0.9, 0.8, 0.65, 0.5}) {
    size_t within = 0, all = 0;
    double saved = 0;
    for (const Input& input : judged.inputs())
      for (const double budget : kBudgets) {
        const WhatIfKnobs knobs = trained.choose(input, {budget, share});
        const Verdict verdict = judged.judge(input, knobs);
        ++all;
        within += verdict.error <= budget;
        saved += std::log(verdict.speedup);
      }
    fmt::print("calibration: share {:.2f}: {} of {} within the budget, speedup {:.2f}\n", share, within, all,
               std::exp(saved / static_cast<double>(all)));
    if (within < all) break;
    best = share;
  }
  return best;
}

void test(Runs& runs, const Trained& trained, const std::string& what, Choice choice) {
  const Judged judged(runs, test_inputs());
  for (const double budget : kBudgets) {
    Summary summary(fmt::format("{}, {:g} %", what, budget), budget);
    choice.budget = budget;
    for (const Input& input : judged.inputs()) {
      const double began = cpu_seconds();
      const WhatIfKnobs knobs = trained.choose(input, choice);
      const double choosing = cpu_seconds() - began;
      summary.add(input, judged.judge(input, knobs, choosing), text_of(knobs));
    }
    summary.print();
  }
}

/// What there is without models.
void test_present(Runs& runs, const Trained& trained) {
  const Judged judged(runs, test_inputs());
  for (const double budget : kBudgets) {
    Summary summary(fmt::format("as forecasts are made now, {:g} %", budget), budget);
    for (const Input& input : judged.inputs())
      summary.add(input, judged.judge_present(input, budget), "");
    summary.print();
  }
  for (const double budget : kBudgets) {
    Summary summary(fmt::format("closed form times {:.3f}, {:g} %", trained.bound_factor(), budget), budget);
    for (const Input& input : judged.inputs())
      summary.add(input, judged.judge_bound(input, trained.bound_factor()), "");
    summary.print();
  }
}

void test_agreement(Runs& runs) {
  const Judged calibration(runs, calibration_inputs()), judged(runs, test_inputs());
  for (const double budget : kBudgets) {
    // Two coarse answers that agree within this part of the budget are taken to be right.
    double part = 1;
    for (const double candidate : {1.0, 0.75, 0.5, 0.35, 0.25}) {
      part = candidate;
      if (std::ranges::all_of(calibration.inputs(), [&](const Input& input) {
            return calibration.judge_agreement(input, part * budget).error <= budget;
          }))
        break;
    }
    Summary summary(fmt::format("agreement within {:g} of {:g} %", part, budget), budget);
    for (const Input& input : judged.inputs())
      summary.add(input, judged.judge_agreement(input, part * budget), "");
    summary.print();
  }
}

/// What no phases can do at best: on the first 12 inputs that take at most two seconds.
void test_oracle(Runs& runs) {
  std::vector<Input> quick;
  for (const Input& input : test_inputs())
    if (quick.size() < 12 && runs.run(input, {}).cpu <= 2) quick.push_back(input);
  const Judged judged(runs, quick);
  for (const double budget : kBudgets) {
    Summary summary(fmt::format("oracle without phases, {:g} %", budget), budget);
    for (const Input& input : judged.inputs()) {
      Verdict best;
      for (const Levels& levels : ClassModel::all_levels())
        if (const Verdict one = judged.judge(input, {std::vector<Levels>(1, levels)});
            one.error <= budget && one.speedup > best.speedup)
          best = one;
      summary.add(input, best, "");
    }
    summary.print();
  }
}

int run(const std::string& path, const std::string& step) {
  Runs runs(path);
  const bool all = step.empty();
  if (step == "oracle") test_oracle(runs);
  if (step == "train" || step == "calibrate" || step == "test" || all) {
    const Trained trained(runs);
    if (step == "train") return 0;
    trained.print();
    const double share = calibrated_share(runs, trained);
    if (all || step == "test") {
      test(runs, trained, "models", {.share = share});
      test(runs, trained, "models, exact beyond training", {.share = share, .exact_beyond = true});
      test(runs, trained, "models as printed", {.rule = opprox::BudgetRule::kAsPrinted});
      test_present(runs, trained);
    }
  }
  if (all || step == "agree") test_agreement(runs);
  return 0;
}

}  // namespace
}  // namespace kintsugi::what_if

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "opprox_bench RUNS [train | calibrate | test | agree | oracle]\n");
    return 2;
  }
  kintsugi::log::set_level(kintsugi::log::Level::kError);
  return kintsugi::what_if::run(argv[1], argc > 2 ? argv[2] : "");
}
