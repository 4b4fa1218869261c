/// Estimates how long a repair takes, by trees and links. `auto` picks by it, and a repair's deadline is derived
/// from it.
///
/// With s the slice, n slices, l the latency of a hop (one way, opening a call included), o the fixed cost of one slice
/// on one link: a sum is C bytes (f * C for f chunks rebuilt in one pass; a leaf that sends its raw rows sends those),
/// and a link that carries the share w of the slices of x sums is busy for w * x * (C / rate + n * o). A tree takes
/// what its busiest link takes, the time until its pipeline is full (a slice, or the part of it that is forwarded at
/// once, on every hop but the slowest of the longest path) and 2 * l for each hop of that path. With equal links B:
///
/// ```
/// star       k * (C/B + n*o)              + 2*l        the root's downlink carries k chunks
/// staggered  k * (C/B + n*o + 2*l)
/// ppr        d * (C/B + n*o) + fill       + 2*depth*l  unsliced d = ceil(log2(k + 1)) timesteps of a chunk (Mitra
///                                                      2016, theorem 4.4.1)
/// chain      C/B + n*o + (k-1)*(s/B + o)  + 2*k*l      every link carries one chunk
/// ```
///
/// It is an estimate of transfer alone: disks and multiplication overlap with it unless they are slower than the links.
#pragma once

#include <cstdint>
#include <span>

#include "repair_manager/trees/tree_plan.h"
#include "repair_manager/trees/weighted_tree.h"

namespace kintsugi::repair_manager {

struct LinkModel {
  /// Rate of a server's link, each way, while no server's rate is known.
  double bytes_per_second = 125e6;
  double hop_latency_seconds = 300e-6;
  double slice_overhead_seconds = 60e-6;  ///< cost of frame, checksum and wake-ups for one slice on one hop
};

/// Slices are whole checksum blocks.
inline constexpr uint64_t kMinSliceBytes = 64 << 10;
inline constexpr uint64_t kMaxSliceBytes = 4 << 20;
/// Used where slices of this size do not delay the filling of a pipeline.
inline constexpr uint64_t kDefaultSliceBytes = 512 << 10;
/// A node forwards a slice in parts of this size, before it has the whole.
inline constexpr uint64_t kForwardBytes = 128 << 10;

/// Reads want their first bytes sooner than this, if slices of kMinSliceBytes allow.
inline constexpr double kFirstByteSeconds = 0.040;

/// ceil(log2(k + 1)).
uint32_t ppr_timesteps(uint32_t k);

/// The sums that the trees carry.
struct TreeLoad {
  uint64_t sum_bytes = 0;  ///< length of one sum: a chunk or a sub-chunk
  uint32_t sums = 1;       ///< lost chunks x rows
  /// Rows that each helper reads; a leaf that reads fewer than `sums` sends them as they are. Empty: as many.
  std::span<const uint32_t> rows_read = {};
  /// Slices are multiples of it. It is the size of a sub-cell when there are several rows.
  uint64_t slice_unit = kMinSliceBytes;
};

/// The slice (of one sum) that makes a pipeline of `depth` hops fastest: filling it takes (depth - 1) slices,
/// and every slice costs its overhead, so s = sqrt(C * o * B / (depth - 1)), as a power of two. Both costs
/// stay below 5 % of C/B for 64 MiB at 1 Gbit/s and 12 hops. Nodes forward slices in parts of kForwardBytes:
/// where two of them fit into s, filling costs no more with larger slices, and kDefaultSliceBytes is taken.
uint64_t default_slice_bytes(uint32_t depth, const TreeLoad& load, double bytes_per_second,
                             const LinkModel& link);
/// The largest power of two, up to the default, with which the first byte comes within kFirstByteSeconds.
uint64_t read_slice_bytes(uint32_t depth, const TreeLoad& load, double bytes_per_second,
                          const LinkModel& link);

struct Estimate {
  double seconds = 0;
  double first_slice_seconds = 0;  ///< time until the root has the first slice, or a part of it
};

/// How sums go over trees.
struct Transfer {
  Shape shape = Shape::STAR;  ///< only matters when it is STAGGERED
  TreeLoad load;
  uint64_t slice_bytes = kDefaultSliceBytes;  ///< size of a slice, not 0
};

Estimate estimate(const TreeSet& trees, const Transfer& transfer, std::span<const LinkRate> helpers,
                  double root_down, const LinkModel& link);

struct Choice {
  Shape shape = Shape::STAR;
  uint64_t slice_bytes = 0;
  double seconds = 0;              ///< estimated duration
  double first_slice_seconds = 0;  ///< in a sliced tree, time until the root has the first part of a slice
  /// Lower bound: no choice of helpers and trees that carry whole sums is faster.
  double bound_seconds = 0;
};

}  // namespace kintsugi::repair_manager
