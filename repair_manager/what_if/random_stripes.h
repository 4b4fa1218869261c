/// Draws where the chunks of stripes lie, as metaservers place them: on distinct servers, one in a rack that holds fewer
/// chunks of the stripe goes first, and within that a server is drawn with a chance in proportion to its chunks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/runtime/random.h"

namespace kintsugi::what_if {

class RandomStripes {
 public:
  struct Place {
    uint32_t rack = 0;
    double weight = 0;  ///< 0: it gets no chunks
  };

  /// `random` outlives it. REQUIRES: at least `chunks` places have a weight.
  RandomStripes(std::span<const Place> places, uint32_t chunks, runtime::Random& random);

  /// The places of a stripe's chunks, by chunk, given that one of them, at least, is lost. `lost[place]`: it is. Of all
  /// stripes that lose a chunk, each is drawn with the same chance. REQUIRES: a lost place has a weight.
  std::vector<uint32_t> that_loses(const std::vector<bool>& lost);

 private:
  uint32_t any_of(const std::vector<double>& sums);
  void add_one(std::vector<uint32_t>& holders);
  bool may_add(const std::vector<uint32_t>& holders, uint32_t place, uint32_t fewest) const;
  uint32_t in_rack(const std::vector<uint32_t>& holders, uint32_t rack) const;

  const std::vector<Place> places_;
  const uint32_t chunks_;
  runtime::Random& random_;
  std::vector<double> sums_;       // of the weights up to each place
  std::vector<double> lost_sums_;  // the same of lost places
  std::vector<bool> lost_;         // for which lost_sums_ is
  std::vector<uint32_t> left_in_rack_;
};

}  // namespace kintsugi::what_if
