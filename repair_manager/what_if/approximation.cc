#include "repair_manager/what_if/approximation.h"

#include <algorithm>
#include <cmath>

namespace kintsugi::what_if {
namespace {

// So few repairs are simulated exactly in a moment.
constexpr double kFewChunks = 500;
// One simulated repair for fewer saves too little.
constexpr double kWorthSampling = 1.5;
// A sampled run's error falls with the repairs that each server takes part in: kSampling / sqrt(k * simulated / servers).
constexpr double kSampling = 0.5;
// The joint schedule takes so many times the placement bound, give or take kClosedFormError, where links are alike and
// each server helps with at least kFewestSends repairs.
constexpr double kJointFactor = 1.05, kClosedFormError = 0.04, kFewestSends = 8;

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

double simulated_repairs(double lost_chunks, const Knobs& knobs) {
  double repairs = 0;
  for (const PhaseKnobs& phase : knobs)
    repairs += lost_chunks / kPhases / phase.repairs_each;
  return repairs;
}

Approximation choose_approximation(const Facts& facts, double budget) {
  if (budget <= 0 || facts.lost_chunks <= kFewChunks) return {};
  if (budget >= kClosedFormError && closed_form_fits(facts))
    return {.method = Method::kClosedForm, .error = kClosedFormError};
  // sends = (kSampling / budget)^2
  const double needed = std::pow(kSampling / budget, 2) * static_cast<double>(facts.alive) / facts.policy.k;
  const double each = facts.lost_chunks / std::max(kFewChunks, needed);
  if (each < kWorthSampling) return {};
  Approximation sampled{.method = Method::kSampled, .error = budget};
  for (PhaseKnobs& phase : sampled.knobs)
    phase.repairs_each = each;
  return sampled;
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
