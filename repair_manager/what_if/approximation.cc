#include "repair_manager/what_if/approximation.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace kintsugi::what_if {
namespace {

/// What simulating costs and how far it is off. All of it is measured: docs/what_if.md.
struct Fit {
  /// So many repairs are simulated in about a second.
  double affordable;
  /// error = in_part / sends^power + always, where sends is the number of simulated repairs with which a server helps.
  double in_part, power, always;
  /// How coarse a phase is, as a part of the coarsest.
  std::array<double, kPhases> phases;
};
constexpr Fit kAlike{
    .affordable = 10'000, .in_part = 1.3, .power = 1, .always = 0.005, .phases = {1, 1, 1, 1}};
// A slow link is still busy when the others have nothing left to do: the end decides.
constexpr Fit kUneven{
    .affordable = 1'500, .in_part = 0.6, .power = 0.5, .always = 0.005, .phases = {1, 1, 1, 0.25}};
// Turns of the schedule take longer with more servers than these.
constexpr double kManyServers = 1'000;
// One simulated repair for fewer saves too little.
constexpr double kWorthSampling = 1.5;
// The joint schedule takes so many times the placement bound, give or take kClosedFormError, where links are alike and
// each server helps with at least kFewestSends repairs.
constexpr double kJointFactor = 1.04, kClosedFormError = 0.04, kFewestSends = 32;

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
  double parts = 0;
  for (const double phase : fit.phases)
    parts += 1 / phase / kPhases;
  Approximation sampled{.method = Method::kSampled};
  for (size_t i = 0; i < kPhases; ++i)
    sampled.knobs[i].repairs_each = std::max(1.0, facts.lost_chunks / simulated * parts * fit.phases[i]);
  sampled.error =
      fit.in_part / std::pow(sends(facts, simulated_repairs(facts.lost_chunks, sampled.knobs)), fit.power) +
      fit.always;
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
