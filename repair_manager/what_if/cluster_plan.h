/// What a cluster that is only described would hold, survive, and take to repair: closed forms that need no server.
///
/// With N servers of D disks of b bytes, links of B bytes/s each way, disks of d bytes/s, a policy of n = k + m chunks,
/// and r, the chunks that are read for one lost chunk (k for Reed-Solomon, the mean over all chunks otherwise):
///
/// ```
/// usable      N * D * b * k / n
/// lost L      full * b of a disk, full * D * b of a server, the servers of a rack together
/// links       r * L / (A * B)              A: servers that are alive; every lost chunk takes r sums, each of which one
///                                          server sends and one receives (placement bound: docs/benchmarks.md)
/// disks       (r + 1) * L / (disks * d)    r chunks are read and one is written, on all disks that are there
/// receivers   L / (w * B), L / (w's disks * d)   only where w servers have to take everything: see below
/// one chunk   C / B                        no chunk is rebuilt faster than a link carries it
/// repair      1.2 times the largest of these
/// ```
///
/// 1.2 is how much longer the joint schedule takes than its bound: 1.19 in network namespaces (docs/sizing.md).
/// A chunk is rebuilt on a server without a chunk of its stripe. With fewer than n servers left there is none: what a
/// server had then waits for its replacement, and what a disk had goes to its own server's other disks.
///
/// Pure functions: no clock, no network, no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "erasure/policy.h"

namespace kintsugi::what_if {

struct ClusterShape {
  uint32_t servers = 0;
  uint32_t disks = 1;  ///< number of disks of each server
  double disk_bytes = 0;
  erasure::Policy policy;
  uint32_t racks = 0;           ///< 0: nothing is said of racks
  double link_rate = 10e9 / 8;  ///< bytes/s of each server, each way
  double disk_rate = 150e6;     ///< bytes/s that a disk reads or writes
  double chunk_bytes = 64 << 20;
  double full = 0.8;              ///< share of the disks' bytes that is used
  double disk_failures = 0.015;   ///< a year and disk
  double server_failures = 0.01;  ///< a year and server: it is gone for good, with its disks
  double detection_seconds = 10;  ///< the metaserver's setting dead_after
  /// The cluster's repair.delay, for stripes that can still lose two chunks.
  double delay_seconds = 15 * 60;
  /// Time until a new server or disk is there, where repairs have to wait for one.
  double replacement_seconds = 24 * 3600;
};

/// Disks and servers that are lost at once, all on different servers.
struct LostParts {
  uint32_t disks = 0, servers = 0;
};

enum class Limit { kLinks, kDisks, kReceivers, kOneChunk };
std::string_view limit_name(Limit limit);  ///< "links", "disks", "receivers", "one chunk"

struct RepairTime {
  double seconds = 0;  ///< time from the first byte to the last one, without waiting
  Limit limit = Limit::kLinks;
  bool waits_for_replacement = false;
};

struct Plan {
  double raw_bytes = 0, usable_bytes = 0;
  /// Usable bytes if a server may be gone for good and all is to be whole again on the others; nothing when these are
  /// too few for a stripe.
  std::optional<double> usable_bytes_without_a_server;
  uint32_t disks_survived = 0;             ///< lost at once, wherever; as many servers are survived
  std::optional<uint32_t> racks_survived;  ///< nothing: nothing is said of racks
  /// [j]: of all sets of j chunks, those whose loss is survived; to k + m.
  std::vector<double> survived_share;
  double chunks_read = 0;  ///< chunks that are read for one lost chunk: r
  double lost_disk_bytes = 0, lost_server_bytes = 0, lost_rack_bytes = 0;
  RepairTime disk, server;
  std::optional<RepairTime> rack;  ///< nothing: nothing is said of racks, or a lost one is not survived
  double losses_a_year = 0;        ///< expected number of times that data is lost: durability.h
  double loss_probability = 0;     ///< probability of at least one such time within a year
};

/// kInvalidArgument with one sentence when the shape makes no sense, or is too small for its policy.
Result<Plan> plan(const ClusterShape& shape);

/// REQUIRES for the following: a shape that plan() accepts.

/// Mean number of chunks' worth of bytes that is read for a chunk that alone is lost.
double mean_chunks_read(const erasure::Policy& policy);
/// [j]: the share of sets of j chunks whose loss a stripe survives, j from 0 to k + m.
std::vector<double> survived_shares(const erasure::Policy& policy);
/// Time to rebuild `lost_bytes` after a loss, with `chunks_read` chunks read for each.
RepairTime repair_time(const ClusterShape& shape, LostParts loss, double lost_bytes, double chunks_read);

}  // namespace kintsugi::what_if
