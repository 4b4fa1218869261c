/// Judges single executions against what a model expects: "Guardian" in Mitra 2016, section 3.5 and algorithm 4. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "monitoring/behaviour/error_analysis.h"

namespace kintsugi::behaviour {

/// What one execution looks like.
struct Judgement {
  double predicted = 0;
  double error = 0;     ///< relative error; above 0: more or slower than predicted
  double expected = 0;  ///< mean size of the error to expect there (E)
  double beyond = 0;    ///< how much larger the error is than `expected` (δ)
  /// Probability of an anomaly: the share of the normal executions with errors above the mean whose error is smaller.
  double probability = 0;
  bool known = true;  ///< false: nothing can be said there, so it is no anomaly
  std::vector<ExtrapolationErrors::At::Beyond> extrapolated;
};

/// `error` is relative. When `more_only`, an error below 0 is no deviation.
Judgement judge(double predicted, double error, const ExtrapolationErrors::At& expected,
                const ErrorDensity& inside, bool more_only);

/// The chance that at least `found` of `of` independent trials hit when each does with `chance`.
double binomial_tail(size_t found, size_t of, double chance);

/// Which hypotheses are rejected when at most `share` of those that are should be wrong (Benjamini and Hochberg 1995).
std::vector<bool> benjamini_hochberg(std::span<const double> p_values, double share);

/// The last executions of one module on one server, and whether there is something wrong with them: several are far
/// off, or most are off.
class RecentExecutions {
 public:
  static constexpr size_t kRemembered = 20;
  static constexpr size_t kFarNeeded = 5;
  static constexpr size_t kOffNeeded = 12;
  /// An alarm that stands is taken back when so few of the remembered are far off, and so few are off.
  static constexpr size_t kFarCleared = 1, kOffCleared = 5;

  void add(bool far, bool off) {
    constexpr uint32_t kAll = (1u << kRemembered) - 1;
    far_ = ((far_ << 1) | (far ? 1u : 0u)) & kAll;
    off_ = ((off_ << 1) | (off ? 1u : 0u)) & kAll;
    seen_ += seen_ < kRemembered ? 1 : 0;
  }
  size_t seen() const { return seen_; }
  size_t far() const { return static_cast<size_t>(__builtin_popcount(far_)); }
  size_t off() const { return static_cast<size_t>(__builtin_popcount(off_)); }
  bool enough() const { return far() >= kFarNeeded || off() >= kOffNeeded; }
  bool calm() const { return far() <= kFarCleared && off() <= kOffCleared; }
  /// The probability that normal executions look like this or worse, when each is far off, or off, with these chances.
  double chance(double far_chance, double off_chance) const;

 private:
  uint32_t far_ = 0, off_ = 0;
  size_t seen_ = 0;
};

}  // namespace kintsugi::behaviour
