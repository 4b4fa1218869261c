#include "repair_manager/what_if/approximation.h"

#include <algorithm>
#include <cmath>

namespace kintsugi::what_if {
namespace {

/// What simulating costs and how far it is off. All of it is measured: docs/evidence/what_if.md.
struct Fit {
  /// So many repairs are simulated in about a second.
  double affordable;
  /// error = in_part / sends^power + always, where sends is the number of simulated repairs with which a server helps.
  double in_part, power, always;
};
constexpr Fit kAlike{.affordable = 8'000, .in_part = 1.3, .power = 1, .always = 0.005};
// A slow link may still be busy with its last repair when the others have nothing left to do.
constexpr Fit kUneven{.affordable = 1'500, .in_part = 1.0, .power = 0.5, .always = 0.005};
// Turns of the schedule take longer with more servers than these.
constexpr double kManyServers = 1'000;
// One simulated repair for fewer saves too little.
constexpr double kWorthSampling = 1.5;
// The joint schedule takes 1.02 to 1.23 times the placement bound where links are alike and each server helps with at
// least kFewestSends repairs, as it keeps in step or not.
constexpr double kJointFactor = 1.12, kClosedFormError = 0.1, kFewestSends = 32;

// Parts of the whole time after which half and 90 % are rebuilt.
constexpr double kHalf = 0.5, kMost = 0.9;

double sends(const Facts& facts, double chunks) {
  return facts.policy.k * chunks / static_cast<double>(std::max<size_t>(1, facts.alive));
}

bool closed_form_fits(const Facts& facts) {
  return facts.policy.family == erasure::Policy::Family::kReedSolomon && facts.alike &&
         facts.one_chunk_a_stripe && facts.alive > facts.policy.chunks() &&
         sends(facts, facts.lost_chunks) >= kFewestSends;
}

}  // namespace

Approximation choose_approximation(const Facts& facts, double budget) {
  const Fit& fit = facts.even ? kAlike : kUneven;
  const double affordable = fit.affordable / std::max(1.0, static_cast<double>(facts.alive) / kManyServers);
  if (budget <= 0 || facts.lost_chunks <= kWorthSampling * affordable) return {};
  // As many repairs as the budget needs, and more if they cost no more than a moment.
  const double enough = std::pow(fit.in_part / std::max(budget - fit.always, 1e-6), 1 / fit.power);
  const double needed = enough * static_cast<double>(facts.alive) / facts.policy.k;
  if (needed > affordable && budget >= kClosedFormError && closed_form_fits(facts))
    return {.method = Method::kClosedForm, .error = kClosedFormError};
  const double simulated = std::max(needed, affordable);
  if (facts.lost_chunks < kWorthSampling * simulated) return {};
  const double error = fit.in_part / std::pow(sends(facts, simulated), fit.power) + fit.always;
  return {.method = Method::kSampled, .error = error, .simulated = simulated};
}

ClosedForm closed_form_times(std::span<const PlacementBound::Holders> stripes,
                             std::span<const PlacementLink> links, const LostBytes& lost) {
  double bound = 0;
  if (static_cast<double>(stripes.size()) >= lost.chunks) {
    bound = PlacementBound(stripes, lost.policy.k, lost.chunk_bytes, links).seconds();
  } else {
    double up = 0;
    for (const PlacementLink& link : links)
      up += link.up;
    bound = lost.policy.k * lost.chunks * lost.chunk_bytes / up;
  }
  const double all = kJointFactor * bound;
  return {.half = kHalf * all, .most = kMost * all, .all = all};
}

}  // namespace kintsugi::what_if
