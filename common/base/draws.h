/// Draws that follow from a seed alone: for analyses that sample and have to give the same answer wherever they are
/// repeated. Not for secrets, and not for what a daemon does (that draws from runtime::Random).
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

#include "common/base/hash.h"

namespace kintsugi {

class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}

  uint64_t next() { return mix_bits(state_ += kGoldenRatio); }
  /// Uniform in [0, bound). REQUIRES: bound > 0.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Standard normal (Box and Muller).
  double normal() {
    return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(2 * std::numbers::pi * uniform());
  }
  /// For tests.
  double exponential() { return -std::log(1 - uniform()); }

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[below(i)]);
  }
  /// The numbers 0 … count − 1 in a random order.
  std::vector<size_t> permutation(size_t count) {
    std::vector<size_t> order(count);
    for (size_t i = 0; i < count; ++i)
      order[i] = i;
    shuffle(order);
    return order;
  }

 private:
  uint64_t state_;
};

}  // namespace kintsugi
