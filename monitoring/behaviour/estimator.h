/// The model of one observation of one module: polynomials in a tree of splits at discontinuities. "Sculptor" in Mitra
/// 2016, section 3.3. Pure.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "monitoring/behaviour/section.h"

namespace kintsugi::behaviour {

/// A value of an input beyond which an observation follows another law.
struct Split {
  size_t input;
  double at;  ///< inputs up to this value are on the low side
};

class Estimator {
 public:
  /// Looks for discontinuities, too, to the depth that the settings allow. REQUIRES: samples not empty, no NaN.
  static Estimator fit(const Samples& samples, const FitSettings& settings);
  /// The same splits and forms, fitted to other samples. Sides of a split that have too few of them stay as they are.
  Estimator refit(const Samples& samples) const;
  /// With one more section: what lies within [low, high] of an input is estimated by a polynomial of `samples`,
  /// everything else as before.
  Estimator with_region(size_t input, double low, double high, const Samples& samples,
                        const FitSettings& settings) const;

  double predict(std::span<const double> inputs) const;
  /// Out of fold, 1 − squared errors over squares about the mean: of logarithms when all observations are above 0 and
  /// the form was free to choose, else plain.
  double r2() const { return r2_; }
  std::vector<Split> splits() const;
  /// The section that predicts for these inputs.
  const Section& section(std::span<const double> inputs) const;
  size_t sections() const;

 private:
  struct Node {
    Section section;             // only in a leaf
    std::optional<Split> split;  // only in an inner node
    std::unique_ptr<Node> low, high;
  };
  static std::unique_ptr<Node> grow(const Samples& samples, const FitSettings& settings, size_t depth);
  static std::unique_ptr<Node> refit(const Node& node, const Samples& samples);
  static std::unique_ptr<Node> copy(const Node& node);
  static double squared_error(const Node& node);

  std::shared_ptr<const Node> root_;
  double r2_ = 0;
};

/// Where one law ends and another begins along an input, or nothing when a split there takes away too little error to
/// be worth a look.
std::optional<Split> find_split(const Samples& samples, size_t input, const FitSettings& settings);

}  // namespace kintsugi::behaviour
