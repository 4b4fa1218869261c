#include "repair_manager/cost_model.h"

#include <algorithm>
#include <bit>

#include "common/base/assert.h"

namespace kintsugi::repair_manager {

uint32_t ppr_timesteps(uint32_t k) {
  return static_cast<uint32_t>(std::bit_width(k));
}

uint64_t default_slice_bytes(uint32_t k, uint64_t chunk_bytes) {
  uint64_t slice = kDefaultSliceBytes;
  while (slice > kMinSliceBytes && k > 1 && (k - 1) * slice > chunk_bytes / 8)
    slice /= 2;
  return slice;
}

double estimate_seconds(Shape shape, uint32_t helpers, uint64_t chunk_bytes, uint64_t slice_bytes,
                        const LinkModel& link) {
  KINTSUGI_ASSERT(shape != Shape::kAuto && slice_bytes > 0);
  if (helpers == 0) return 0;
  const uint64_t slice = std::max<uint64_t>(1, std::min(slice_bytes, chunk_bytes));
  const auto slices = static_cast<double>(std::max<uint64_t>(1, (chunk_bytes + slice - 1) / slice));
  const double chunk_seconds =
      static_cast<double>(chunk_bytes) / link.bytes_per_second + slices * link.slice_overhead_seconds;
  const double round_trip = 2 * link.hop_latency_seconds;
  switch (shape) {
    case Shape::kStar:
      return helpers * chunk_seconds + round_trip;
    case Shape::kPpr:
      return ppr_timesteps(helpers) * (chunk_seconds + round_trip);
    default:
      return chunk_seconds + helpers * round_trip +
             (helpers - 1) *
                 (static_cast<double>(slice) / link.bytes_per_second + link.slice_overhead_seconds);
  }
}

Choice choose_shape(Shape wanted, uint32_t helpers, uint64_t chunk_bytes, uint64_t slice_bytes,
                    const LinkModel& link) {
  const uint64_t slice = slice_bytes > 0 ? slice_bytes : default_slice_bytes(helpers, chunk_bytes);
  if (wanted != Shape::kAuto)
    return {wanted, slice, estimate_seconds(wanted, helpers, chunk_bytes, slice, link)};
  Choice best;
  for (Shape shape : {Shape::kStar, Shape::kPpr, Shape::kChain}) {
    const double seconds = estimate_seconds(shape, helpers, chunk_bytes, slice, link);
    if (shape == Shape::kStar || seconds < best.seconds) best = {shape, slice, seconds};
  }
  return best;
}

}  // namespace kintsugi::repair_manager
