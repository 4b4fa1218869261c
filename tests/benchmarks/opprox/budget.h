/// How an error budget is divided among phases, and what each phase is to do with its share (Mitra 2016, section 5.3.8,
/// equation 5.1 and algorithm 7). Pure.
///
/// A phase with a greater return on investment chooses first, from a share in proportion to it. What it does not use is
/// left to the others.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace kintsugi::opprox {

/// A setting of one phase has this effect, measured or predicted.
struct Effect {
  double speedup = 1;
  double error = 0;  ///< in percent
};

enum class BudgetRule {
  /// Gains are counted from a speedup of 1, errors from kLeastError; shares are those of the phases that have not chosen
  /// yet; what is left at the end goes to whichever phase can use it.
  kShared,
  /// Equation 5.1 and algorithm 7 by the letter: a speedup of 1 is a gain, an error of 0 gives an infinite return, and
  /// shares are those of all phases, so that what is left over is lost.
  kAsPrinted,
};
inline constexpr double kLeastError = 0.1;

/// The mean over the effects of what they gain for what they cost.
double return_on_investment(std::span<const Effect> effects, BudgetRule rule = BudgetRule::kShared);

struct PhaseOptions {
  double return_on_investment = 0;
  std::vector<Effect> effects;  ///< of the settings that can be chosen
};
struct Allotment {
  std::vector<std::optional<size_t>>
      chosen;       ///< index: phase; an index of its effects; nothing: it stays exact
  double left = 0;  ///< part of the budget that nobody used
};
/// For each phase the setting with the largest speedup whose error is within the phase's part of the budget.
Allotment divide_budget(std::span<const PhaseOptions> phases, double budget,
                        BudgetRule rule = BudgetRule::kShared);

}  // namespace kintsugi::opprox
