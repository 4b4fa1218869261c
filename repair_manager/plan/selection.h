/// The choice of helpers: m-PPR's greedy choice of helpers, and its weights (Mitra 2016, section 4.5, algorithm 5,
/// equations 4.2 and 4.3).
///
/// To the weights of the equations we add what Mitra 2016 asks for elsewhere. Slow servers come later ("tail
/// completion", section 4.6.2): one with a quarter of the usual link rate counts as if it took part in three more
/// repairs, one whose CPU or disks are busy all the time, or that failed a repair lately, in four more, one that the
/// monitor has found slower than its peers in eight more. Very hot chunks
/// and servers are spared (section 4.6.3): a chunk that is read all the time, or a server whose users need more than
/// half of its link, counts as in four more repairs, and its being cached counts for nothing.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "erasure/policy.h"
#include "repair_manager/plan/slots.h"
#include "repair_manager/view/cluster_view.h"
#include "repair_manager/view/server_table.h"

namespace kintsugi::repair_manager {

/// User load counts in these.
inline constexpr double kMegabyte = 1 << 20;

/// Coefficients of the weights of sources and destinations:
/// ```
/// w_src = a1 * hasCache - a2 * #reconstructions - a3 * userLoad
/// w_dst = -(b1 * #repairDsts + b2 * userLoad)
/// ```
struct Coefficients {
  double a1 = 0, a2 = 1, a3 = 0;
  double b1 = 1, b2 = 0;
};

// As Mitra 2016 measured them.
inline constexpr double kCacheSaving = 0.102;  ///< share of a repair that a cached chunk saves
inline constexpr double kNetworkShare = 0.85;  ///< share of a repair that is network transfer
inline constexpr double kVeryHot = 8;          ///< reads of a chunk, halved every minute (ChunkView.heat)

/// a1 = alpha * ceil(log2(k+1)) / beta, a2 = b1 = 1, a3 = b2 = 1 / (C * ceil(log2 k)), with C (the chunk's size) in MB
/// and user load in MB/s.
Coefficients coefficients(uint32_t k, uint64_t chunk_bytes);

double source_weight(const Coefficients& c, bool cached, uint32_t reconstructions, double user_megabytes);
double destination_weight(const Coefficients& c, uint32_t repair_destinations, double user_megabytes);

/// All that the choice for a stripe's lost chunks depends on.
struct SelectionInput {
  const StripeView& stripe;
  std::vector<uint32_t> lost;     ///< chunks to rebuild in one pass; not empty
  const erasure::Policy& policy;  ///< stripe.policy
  const ServerTable& servers;
  const SlotTable& slots;
  /// Servers that failed the last attempts for these chunks. They are taken only if nothing else is left.
  std::span<const ServerId> excluded;
  /// Servers that failed some repair recently. Others are preferred.
  const std::set<ServerId>& suspects;
  std::span<const ServerId> receiving;  ///< destinations of running repairs of the same stripe
  /// Number of failed attempts for which no server could be blamed. Each one skips other helpers.
  uint32_t rotation = 0;
  bool urgent = false;  ///< it takes slots that only such repairs have (SlotTable)

  bool is_lost(uint32_t index) const;
};

/// A data chunk without bytes is all zeros: it helps any repair and needs no server.
bool is_empty_data_chunk(const ChunkView& chunk, uint32_t k);

struct HelperCandidate {
  uint32_t index = 0;                  ///< index of the chunk in its stripe
  const ServerView* server = nullptr;  ///< null: an empty data chunk
  /// kLast: it helps only if nothing else is left.
  enum class Tier { kFree, kGood, kLast } tier = Tier::kGood;
  double weight = 0;   ///< weight by equation 4.2, minus the penalties above
  bool avoid = false;  ///< the server is busy, suspect, or serves a very hot chunk
};

/// How servers are treated that are at their limit of repairs.
enum class Busy { kRefuse, kTake };

/// Ranks all chunks that can help, best first: empty data chunks, then by weight. kUnavailable: they do not suffice to
/// rebuild the lost ones; kLimitExceeded: with busy and suspect servers they would. With Busy::kTake busy servers come
/// after all others.
Result<std::vector<HelperCandidate>> rank_helpers(const SelectionInput& input, Busy busy = Busy::kRefuse);

}  // namespace kintsugi::repair_manager
