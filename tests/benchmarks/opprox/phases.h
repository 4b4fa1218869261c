/// How many phases an execution is divided into (Mitra 2016, section 5.3.5, algorithm 6), and how speedups of parts add
/// up. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace kintsugi::opprox {

/// The largest difference between neighbours: `means` has the mean error, or speedup, of approximating in each phase.
double largest_difference(std::span<const double> means);

enum class PhaseRule {
  kPrevious,  ///< each division is compared with the one before
  kAsPrinted,  ///< each division is compared with that in two phases: algorithm 6 never assigns the previous one
};

struct PhaseSearch {
  size_t most = 8;       ///< no more phases than these are tried
  double threshold = 5;  ///< finer phases must change the largest difference by more
  PhaseRule rule = PhaseRule::kPrevious;
};
struct PhaseChoice {
  size_t phases = 2;
  std::vector<double> differences;  ///< of 2, 4, 8, ... phases, as far as they were asked for
};
/// `difference(phases)`: the largest difference when the execution has so many phases. Each call costs training runs.
PhaseChoice choose_phases(const PhaseSearch& search, const std::function<double(size_t)>& difference);

/// Speedup of the whole when an outer loop takes `approximate` iterations instead of `exact`, each `local` times as fast.
double overall_speedup(double exact, double local, double approximate);
/// Speedup of the whole when these are its speedups with each phase approximated alone. Infinite when phases save more
/// than there is.
double combined_speedup(std::span<const double> of_phases);

}  // namespace kintsugi::opprox
