#include "tests/benchmarks/opprox/budget.h"

#include <algorithm>
#include <numeric>

namespace kintsugi::opprox {
namespace {

/// The fastest setting with at most this error; of equally fast ones that with the smallest error.
std::optional<size_t> fastest_within(const std::vector<Effect>& effects, double error) {
  std::optional<size_t> best;
  for (size_t i = 0; i < effects.size(); ++i) {
    if (effects[i].error > error || effects[i].speedup <= 1) continue;
    const bool faster =
        !best || effects[i].speedup > effects[*best].speedup ||
        (effects[i].speedup == effects[*best].speedup && effects[i].error < effects[*best].error);
    if (faster) best = i;
  }
  return best;
}

double error_of(const PhaseOptions& phase, std::optional<size_t> chosen) {
  return chosen ? phase.effects[*chosen].error : 0;
}

/// Shares go by the returns of the phases, all of them or those that are left.
double share_of(std::span<const PhaseOptions> phases, std::span<const size_t> sharing, size_t mine) {
  double all = 0;
  for (const size_t phase : sharing)
    all += phases[phase].return_on_investment;
  // Where no phase is worth anything, all are equally so.
  if (all <= 0) return 1.0 / static_cast<double>(sharing.size());
  return phases[mine].return_on_investment / all;
}

}  // namespace

double return_on_investment(std::span<const Effect> effects, BudgetRule rule) {
  if (effects.empty()) return 0;
  double sum = 0;
  for (const Effect& effect : effects)
    sum += rule == BudgetRule::kAsPrinted ? effect.speedup / effect.error
                                          : (effect.speedup - 1) / std::max(effect.error, kLeastError);
  return sum / static_cast<double>(effects.size());
}

Allotment divide_budget(std::span<const PhaseOptions> phases, double budget, BudgetRule rule) {
  Allotment allotment{.chosen = std::vector<std::optional<size_t>>(phases.size()), .left = budget};
  std::vector<size_t> order(phases.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t phase) { return phases[phase].return_on_investment; });
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t phase = order[i];
    const std::span all(order);
    const double share =
        share_of(phases, rule == BudgetRule::kAsPrinted ? all : all.subspan(i), phase) * allotment.left;
    allotment.chosen[phase] = fastest_within(phases[phase].effects, share);
    allotment.left -= error_of(phases[phase], allotment.chosen[phase]);
  }
  if (rule == BudgetRule::kAsPrinted) return allotment;
  for (bool changed = true; changed;) {
    changed = false;
    for (const size_t phase : order) {
      const std::optional<size_t> had = allotment.chosen[phase];
      const double mine = error_of(phases[phase], had) + allotment.left;
      const std::optional<size_t> now = fastest_within(phases[phase].effects, mine);
      const auto speedup = [&](std::optional<size_t> i) { return i ? phases[phase].effects[*i].speedup : 1; };
      if (speedup(now) <= speedup(had)) continue;
      allotment.chosen[phase] = now;
      allotment.left = mine - error_of(phases[phase], now);
      changed = true;
    }
  }
  return allotment;
}

}  // namespace kintsugi::opprox
