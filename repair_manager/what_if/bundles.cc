#include "repair_manager/what_if/bundles.h"

#include <algorithm>
#include <numeric>

namespace kintsugi::what_if {
namespace {

using repair_manager::ChunkView;
using repair_manager::StripeView;

size_t lacking(const StripeView& stripe) {
  return static_cast<size_t>(std::ranges::count_if(
      stripe.chunks, [](const ChunkView& chunk) { return !chunk.available && chunk.length > 0; }));
}

}  // namespace

FluidState bundled(FluidState state, std::span<const uint32_t> repairs) {
  if (std::ranges::all_of(repairs, [](uint32_t each) { return each <= 1; })) return state;
  // The most endangered stripes are repaired first, and among these the one with the least id.
  std::vector<size_t> order(state.stripes.size()), lacks;
  std::iota(order.begin(), order.end(), 0);
  for (const StripeView& stripe : state.stripes)
    lacks.push_back(lacking(stripe));
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return lacks[i]; });
  std::vector<double> stands_for(order.size(), 0.0);
  for (size_t i = 0; i < order.size();) {
    const size_t phase = i * repairs.size() / order.size();
    size_t end = i;
    while (end < order.size() && end < i + repairs[phase] && lacks[order[end]] == lacks[order[i]])
      ++end;
    stands_for[order[i]] = static_cast<double>(end - i);
    i = end;
  }
  std::vector<StripeView> kept;
  for (size_t i = 0; i < stands_for.size(); ++i) {
    if (stands_for[i] == 0) continue;
    kept.push_back(std::move(state.stripes[i]));
    kept.back().id = StripeId{kept.size()};
    state.repairs_of_stripe.push_back(stands_for[i] * state.repairs_each);
  }
  state.stripes = std::move(kept);
  return state;
}

}  // namespace kintsugi::what_if
