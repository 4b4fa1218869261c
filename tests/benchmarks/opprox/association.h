/// Which features have anything to do with a target (Mitra 2016, section 5.3.7): the others only add noise to a model.
/// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace kintsugi::opprox {

/// Strength of the association between two series, in [0, 1]: the maximal information coefficient, usually.
using Association = std::function<double(std::span<const double>, std::span<const double>)>;

struct AssociationRule {
  double least = 0.3;  ///< weaker ones are none
  /// And it must exceed this share of what permutations of the target have.
  double quantile = 0.95;
  size_t permutations = 100;
  uint64_t seed = 1;
};
/// Indexes of the columns that are associated with the target.
std::vector<size_t> associated(std::span<const std::vector<double>> columns, std::span<const double> target,
                               const Association& association, const AssociationRule& rule = {});

}  // namespace kintsugi::opprox
