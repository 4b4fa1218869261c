/// One continuous piece of a model: a polynomial of a module's inputs (Mitra 2016, section 3.3.3). Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <Eigen/Core>

#include "monitoring/behaviour/held_out.h"
#include "monitoring/behaviour/lasso.h"
#include "monitoring/behaviour/samples.h"

namespace kintsugi::behaviour {

/// What the polynomial is fitted to. Times are judged by relative errors, so those are what ours makes small.
enum class Target : uint8_t {
  kPlain,     ///< predicts the observation, as in the thesis
  kLog,       ///< predicts the logarithm of the observation
  kRelative,  ///< predicts the observation; executions are weighted by one over its square
};

struct FitSettings {
  uint32_t degree = 3;
  uint32_t folds = 3;
  size_t penalties = 50;
  /// The largest penalty whose errors are within two standard errors of the best one's, execution by execution,
  /// instead of the best one; and the chosen terms are fitted again without the penalty.
  bool sparing = true;
  /// Kinds of target and degree are tried one after the other, and inputs also by their logarithm. False: kPlain,
  /// `degree`, inputs as they are.
  bool choose_form = true;
  /// Executions far from the others count less.
  bool robust = true;
  double least_r2 = 0.8;    ///< R² out of fold; a worse model makes no detector
  size_t split_depth = 3;   ///< discontinuities below one another
  size_t least_side = 30;   ///< executions needed on each side of a discontinuity
  double split_gain = 0.3;  ///< share of the squared error that a discontinuity must remove
  uint64_t seed = 1;

  static FitSettings text() { return {.sparing = false, .choose_form = false, .robust = false}; }
};

/// The terms of all products of up to `degree` of `features` factors, the constant left out: C(features + degree,
/// degree) − 1 of them. Each is the list of its factors.
std::vector<std::vector<uint32_t>> polynomial_terms(size_t features, uint32_t degree);

class Section {
 public:
  struct Form {
    Target target = Target::kPlain;
    bool log_inputs = false;  ///< logarithms are taken of inputs that span more than two octaves
    uint32_t degree = 3;
    /// Outside of what was learnt it may grow by orders of magnitude that nothing inside speaks for. Only what no
    /// other form fits is taken for such a law.
    bool steep() const { return target == Target::kLog && (degree > 2 || !log_inputs); }
    bool operator==(const Form&) const = default;
  };

  /// The simplest of the forms that fit as well as the best one, those that are not steep before those that are.
  /// REQUIRES: samples not empty, no NaN.
  static Section fit(const Samples& samples, const FitSettings& settings);
  /// A section of the same form and penalty, fitted to other samples.
  Section refit(const Samples& samples) const;

  /// The prediction in the observation's own unit. REQUIRES: as many inputs as were fitted.
  double predict(std::span<const double> inputs) const;
  /// How much more, relatively, another form expects that fits what was learnt as well: inside, a term that is missing
  /// may be as small as the noise, and outside it is not. 0: no other one expects more.
  double disagreement(std::span<const double> inputs) const;
  const Form& form() const { return form_; }
  size_t terms_used() const;
  /// Squared out-of-fold errors, summed: of logarithms when the observation is judged by relative errors, else plain.
  double squared_error() const { return squared_error_; }

 private:
  void set_scales(const Samples& samples);
  Eigen::MatrixXd rows_of(const Samples& samples) const;
  /// What a fit with the penalty errs by in each execution, while the part that holds it is left out.
  std::vector<double> errors_with(size_t penalty, const Samples& samples, const Folds& folds,
                                  const HeldOut& held_out) const;
  /// Returns the out-of-fold error of each execution.
  std::vector<double> fit_form(const Samples& samples, const FitSettings& settings,
                               const Eigen::VectorXd& sizes);
  Eigen::VectorXd weights_of(const Samples& samples, const Eigen::VectorXd& sizes) const;
  Eigen::VectorXd target_of(const Samples& samples) const;
  double value_of(double fitted) const;

  Form form_;
  bool sparing_ = false, robust_ = false;
  double penalty_ = 0, squared_error_ = 0, least_value_ = 0;
  std::vector<bool> logs_;
  std::vector<double> centre_, scale_;
  std::vector<std::vector<uint32_t>> terms_;
  Line line_;
  std::shared_ptr<const std::vector<Section>> rivals_;  ///< forms that fit about as well; null: none
};

/// True when relative errors make sense: every observation is above 0.
bool all_positive(const Samples& samples);

}  // namespace kintsugi::behaviour
