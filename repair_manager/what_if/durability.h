/// How often a cluster loses data by independent losses of disks and servers: a Markov chain over simultaneous losses.
///
/// Each first loss begins an episode. Its state is (a, b): a disks and b servers, j = a + b of them, have met in some
/// stripes, which lack j chunks. With S stripes in the cluster, whose chunks are on n random servers of N, of D disks:
///
/// ```
/// S(a, b) = S * n! / (n - j)! * (N - j)! / N! / D^a                 stripes in that state; at least 1
/// Qd = (N - j) * D * (1 - (1 - (n - j) / ((N - j) * D))^S(a, b))    disks whose loss makes it worse
/// Qs = (N - j) * (1 - (1 - (n - j) / (N - j))^S(a, b))              servers whose loss makes it worse
/// p(a, b) = (ld * Qd * next(a + 1, b) + ls * Qs * next(a, b + 1)) / (1 / T(a, b) + ld * Qd + ls * Qs)
/// next = f + (1 - f) * p     f: the next lost chunk is one too many for one of the stripes in the next state
/// losses a year = N * D * ld * p(1, 0) + N * ls * p(0, 1)
/// ```
///
/// ld and ls are rates of failure. T is the wait until repairs begin (detection; repair.delay, where a stripe can still
/// lose two chunks; a replacement, where there is no room elsewhere) and the time to rebuild all that those stripes
/// lack: repairs take the stripes with the fewest spare chunks first. f is 0 until the policy's tolerance; an LRC
/// survives some sets of losses beyond it.
///
/// This is the birth-death chain of mirrored and RAID arrays (Patterson et al. 1988) with repair times and
/// numbers of stripes of declustered chunks. It errs towards loss: a state's stripes stay until all are rebuilt.
/// It knows nothing of losses that have one cause (power, racks, software, people) or of sectors that cannot be read.
#pragma once

#include "repair_manager/what_if/cluster_plan.h"

namespace kintsugi::what_if {

/// Expected number of times a year that a stripe is lost. REQUIRES: a shape that plan() accepts.
double losses_a_year(const ClusterShape& shape);

}  // namespace kintsugi::what_if
