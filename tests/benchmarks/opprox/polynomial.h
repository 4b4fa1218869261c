/// Polynomials fitted by least squares, with the smallest degree that predicts what it was not fitted to (Mitra 2016,
/// section 5.3.7). Pure.
///
/// The degree is raised until the coefficient of determination in 10-fold cross-validation exceeds the target. Where no
/// degree suffices, the range of one feature is cut into parts of equally many rows, each with a polynomial of its own;
/// of all features and numbers of parts the best stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kintsugi::opprox {

using Row = std::vector<double>;

struct FitSettings {
  double enough = 0.9;  ///< coefficient of determination that is good enough
  size_t most_degree = 6;
  size_t folds = 10;
  size_t most_parts = 3;  ///< of the range of a feature
  uint64_t seed = 1;      ///< decides which row is in which fold
  /// Rows that must not be told apart, as those of one input: they are in the same fold. Empty: each is alone.
  std::vector<size_t> groups;
};

class Polynomial {
 public:
  /// REQUIRES: rows of one length, as many targets, at least one.
  static Polynomial fit(std::span<const Row> rows, std::span<const double> targets, size_t degree);

  double at(std::span<const double> row) const;
  size_t degree() const { return degree_; }
  /// Terms of a polynomial of so many features, the constant one included.
  static size_t terms(size_t features, size_t degree);

 private:
  size_t degree_ = 0;
  Row center_, scale_;                        // of each feature
  std::vector<std::vector<uint8_t>> powers_;  // of each feature in each term
  std::vector<double> coefficients_;
};

/// A polynomial, or several for the parts of one feature's range.
class Model {
 public:
  /// REQUIRES: as Polynomial::fit.
  static Model fit(std::span<const Row> rows, std::span<const double> targets,
                   const FitSettings& settings = {});

  double at(std::span<const double> row) const;
  /// Coefficient of determination in cross-validation.
  double determination() const { return determination_; }
  /// Errors of predictions in cross-validation, without sign, ascending.
  const std::vector<double>& errors() const { return errors_; }
  /// Error that this share of the predictions in cross-validation had at most. 1, the method's own: the largest.
  double error_of_share(double share) const;
  size_t degree() const;
  size_t parts() const { return parts_.size(); }

 private:
  std::optional<size_t> split_;  // the feature whose range is cut
  std::vector<double> cuts_;     // ascending; one less than parts
  std::vector<Polynomial> parts_;
  double determination_ = 0;
  std::vector<double> errors_;
};

}  // namespace kintsugi::opprox
