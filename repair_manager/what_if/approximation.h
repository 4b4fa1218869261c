/// How much of a loss has to be simulated for an answer within a budget of error, and what the closed form says of it.
///
/// The constants are fitted to exact simulations; docs/evidence/what_if.md has the figures and the command that makes
/// them.
#pragma once

#include <cstddef>
#include <span>

#include "erasure/policy.h"
#include "repair_manager/what_if/loss.h"
#include "repair_manager/what_if/placement_bound.h"

namespace kintsugi::what_if {

/// What the choice depends on.
struct Facts {
  erasure::Policy policy;
  double lost_chunks = 0;
  size_t lost_servers = 0;
  size_t alive = 0;                 ///< servers that are left
  bool even = true;                 ///< servers have the same rate for repairs
  bool alike = true;                ///< even, and nothing else is in the way
  bool one_chunk_a_stripe = false;  ///< no stripe loses two chunks
};

struct Approximation {
  Method method = Method::kExact;
  double error = 0;      ///< expected largest error, as a share of the time that repairs take
  double simulated = 0;  ///< repairs to simulate, when it is kSampled
};

/// The cheapest way whose expected error is within `budget`; 0: the exact one.
Approximation choose_approximation(const Facts& facts, double budget);

/// Beyond this number of stripes the closed form's bound is that of the sum of all links.
inline constexpr double kMostBoundStripes = 20'000;

/// Seconds from the first repair's begin.
struct ClosedForm {
  double half = 0, most = 0, all = 0;
};
struct LostBytes {
  erasure::Policy policy;
  double chunks = 0, chunk_bytes = 0;
};
/// `stripes`: the servers that are left of each stripe; when these are fewer than the lost chunks, they stand for all.
ClosedForm closed_form_times(std::span<const PlacementBound::Holders> stripes,
                             std::span<const PlacementLink> links, const LostBytes& lost);

}  // namespace kintsugi::what_if
