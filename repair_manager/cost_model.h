/// How long a repair takes, by shape: what `auto` picks by and what a repair's deadline is derived from.
///
/// With C chunk bytes, s = min(slice, C), n = ceil(C / s) slices, B link bytes/s, l latency of a hop (one
/// way, opening a call included), o fixed cost of one slice on one link, d = ceil(log2(k + 1)):
///
///   star   k * (C/B + n*o)                      + 2*l       the repair site's downlink carries k chunks
///   ppr    d * (C/B + n*o)                      + 2*d*l     theorem 4.4.1; sliced, still d chunks over the
///   root's downlink chain  (C + (k-1)*s)/B + (n + k-1)*o        + 2*k*l     every link carries one chunk;
///   k-1 slices fill the pipeline
///
/// An estimate of transfer alone: disks and multiplication overlap with it unless they are slower than the
/// links.
#pragma once

#include <cstdint>

#include "repair_manager/tree_plan.h"

namespace kintsugi::repair_manager {

struct LinkModel {
  double bytes_per_second = 125e6;  ///< of each server's link, each way
  double hop_latency_seconds = 300e-6;
  double slice_overhead_seconds = 60e-6;  ///< frame, checksum and wake-ups of one slice on one hop
};

inline constexpr uint64_t kDefaultSliceBytes = 512 << 10;
inline constexpr uint64_t kMinSliceBytes = 64 << 10;

/// ceil(log2(k + 1)).
uint32_t ppr_timesteps(uint32_t k);

/// The default slice, halved until filling a chain of `k` costs at most an eighth of the chunk's transfer,
/// but not below kMinSliceBytes.
uint64_t default_slice_bytes(uint32_t k, uint64_t chunk_bytes);

/// Seconds. `shape` must not be kAuto; `slice_bytes` must not be 0. `helpers` is how many chunks are read.
double estimate_seconds(Shape shape, uint32_t helpers, uint64_t chunk_bytes, uint64_t slice_bytes,
                        const LinkModel& link);

struct Choice {
  Shape shape = Shape::kStar;
  uint64_t slice_bytes = 0;
  double seconds = 0;  ///< estimate
};

/// Fills in what was left open: kAuto takes the cheapest shape (of equal ones the simplest), slice 0 the
/// default size.
Choice choose_shape(Shape wanted, uint32_t helpers, uint64_t chunk_bytes, uint64_t slice_bytes,
                    const LinkModel& link);

}  // namespace kintsugi::repair_manager
