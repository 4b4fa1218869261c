#include "repair_manager/what_if/random_stripes.h"

#include <algorithm>

#include "common/base/assert.h"

namespace kintsugi::what_if {
namespace {

// After so many draws that did not fit, all places are looked at.
constexpr int kMostDraws = 64;

}  // namespace

RandomStripes::RandomStripes(std::span<const Place> places, uint32_t chunks, runtime::Random& random)
    : places_(places.begin(), places.end()), chunks_(chunks), random_(random) {
  double sum = 0;
  for (const Place& place : places_) {
    sums_.push_back(sum += place.weight);
    if (place.rack >= left_in_rack_.size()) left_in_rack_.resize(place.rack + 1);
    if (place.weight > 0) ++left_in_rack_[place.rack];
  }
}

uint32_t RandomStripes::any_of(const std::vector<double>& sums) {
  const double at = random_.fraction() * sums.back();
  const auto found = std::upper_bound(sums.begin(), sums.end(), at);
  return static_cast<uint32_t>(std::min<ptrdiff_t>(found - sums.begin(), std::ssize(sums) - 1));
}

std::vector<uint32_t> RandomStripes::that_loses(const std::vector<bool>& lost) {
  if (lost != lost_) {
    lost_ = lost;
    lost_sums_.clear();
    double sum = 0;
    for (size_t i = 0; i < places_.size(); ++i)
      lost_sums_.push_back(sum += lost[i] ? places_[i].weight : 0);
  }
  KINTSUGI_ASSERT(lost_sums_.back() > 0);
  std::vector<uint32_t> holders;
  while (true) {
    holders.assign(1, any_of(lost_sums_));
    while (holders.size() < chunks_)
      add_one(holders);
    // A stripe that loses several chunks is met by way of each of them.
    const auto losses = std::ranges::count_if(holders, [&](uint32_t place) { return lost[place]; });
    if (losses == 1 || random_.below(static_cast<uint64_t>(losses)) == 0) break;
  }
  for (size_t i = holders.size() - 1; i > 0; --i)
    std::swap(holders[i], holders[random_.below(i + 1)]);
  return holders;
}

uint32_t RandomStripes::in_rack(const std::vector<uint32_t>& holders, uint32_t rack) const {
  return static_cast<uint32_t>(
      std::ranges::count_if(holders, [&](uint32_t place) { return places_[place].rack == rack; }));
}

bool RandomStripes::may_add(const std::vector<uint32_t>& holders, uint32_t place, uint32_t fewest) const {
  return places_[place].weight > 0 && in_rack(holders, places_[place].rack) <= fewest &&
         std::ranges::find(holders, place) == holders.end();
}

void RandomStripes::add_one(std::vector<uint32_t>& holders) {
  // The number of chunks in the racks that hold the fewest, while racks are equal: right for most draws, and checked when
  // it does not work out.
  const auto even = static_cast<uint32_t>(holders.size() / left_in_rack_.size());
  for (int i = 0; i < kMostDraws; ++i) {
    const uint32_t place = any_of(sums_);
    if (may_add(holders, place, even)) return holders.push_back(place);
  }
  uint32_t fewest = UINT32_MAX;
  for (uint32_t rack = 0; rack < left_in_rack_.size(); ++rack)
    if (const uint32_t held = in_rack(holders, rack); held < left_in_rack_[rack])
      fewest = std::min(fewest, held);
  std::vector<double> sums;
  double sum = 0;
  for (uint32_t place = 0; place < places_.size(); ++place)
    sums.push_back(sum += may_add(holders, place, fewest) ? places_[place].weight : 0);
  KINTSUGI_ASSERT(sum > 0);
  holders.push_back(any_of(sums));
}

}  // namespace kintsugi::what_if
