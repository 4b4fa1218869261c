/// Repair trees for servers whose links differ.
///
/// Every slice needs `needed` helpers; each of them sends one sum and every sum is received by another helper
/// or by the root. At rate R (bytes of the chunk a second) a helper that takes part in the share f of the
/// slices sends f * R. No schedule at all is faster than the largest R with
///   R <= d                                                        d: the root's downlink
///   needed * R <= sum over helpers of min(R, u_h)                 u_h: uplink of helper h
///   needed * R <= d + sum of min(d_h, (needed - 1) * min(R, u_h)) d_h: its downlink
///
/// The plan is one tree through helpers that carry the rate alone, if that comes near the bound. Else
/// the fast helpers carry every slice and the others the share that their uplinks allow: the helpers' shares,
/// in units of 1/period, are laid around `needed` rows of `period` positions (McNaughton's wrap-around rule),
/// so that every position has that many different helpers; positions with the same helpers are one tree, and
/// the trees' positions are interleaved, because slices are awaited in order. In a tree those receive that
/// have the downlink for it, as evenly as that allows, since all comes together at the root and a full
/// downlink never makes up for a stall; where downlinks are the limit, trees of the same helpers differ in
/// who receives. With equal links all of this is one chain.
#pragma once

#include <cstdint>
#include <span>

#include "repair_manager/trees/link_rate.h"
#include "repair_manager/trees/slice_shares.h"
#include "repair_manager/trees/tree_plan.h"

namespace kintsugi::repair_manager {

/// The largest R of the bound above.
double bottleneck_bound(std::span<const LinkRate> helpers, size_t needed, double root_down);

/// The rate at which the most loaded link lets the trees run.
double bottleneck_rate(const TreeSet& trees, std::span<const LinkRate> helpers, double root_down);

/// Plans trees over `helpers`, given in order of preference: of equally good ones the first are taken. The period is at
/// most `slices`. REQUIRES: 0 < needed <= helpers.size() <= kMaxHelpers; with needed == helpers.size() it is one tree
/// of all.
TreeSet plan_weighted(std::span<const LinkRate> helpers, size_t needed, double root_down, uint64_t slices);

}  // namespace kintsugi::repair_manager
