/// Who helps and who receives: m-PPR's greedy choice (W section 4.5, algorithm 5, equations 4.2 and 4.3).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "erasure/policy.h"
#include "repair_manager/cluster_view.h"
#include "repair_manager/slots.h"

namespace kintsugi::repair_manager {

/// w_src = a1 * hasCache - a2 * #reconstructions - a3 * userLoad,  w_dst = -(b1 * #repairDsts + b2 *
/// userLoad).
struct Coefficients {
  double a1 = 0, a2 = 1, a3 = 0;
  double b1 = 1, b2 = 0;
};

/// Share of a repair that a cached chunk saves, and share of a repair that is network transfer, as the text
/// measured them.
inline constexpr double kCacheSaving = 0.102;
inline constexpr double kNetworkShare = 0.85;

/// a1 = alpha * ceil(log2(k+1)) / beta, a2 = b1 = 1, a3 = b2 = 1 / (C * ceil(log2 k)) with C in MB and user
/// load in MB/s.
Coefficients coefficients(uint32_t k, uint64_t chunk_bytes);

double source_weight(const Coefficients& c, bool cached, uint32_t reconstructions, double user_megabytes);
double destination_weight(const Coefficients& c, uint32_t repair_destinations, double user_megabytes);

/// The servers as of one moment, by id.
class ServerTable {
 public:
  ServerTable() = default;
  explicit ServerTable(std::vector<ServerView> servers);

  const ServerView* find(ServerId id) const;  ///< null: unknown
  std::optional<size_t> position(ServerId id) const;
  std::span<const ServerView> all() const { return servers_; }
  /// Racks are numbered in the order of their first servers.
  uint32_t rack_of(size_t position) const { return racks_[position]; }
  size_t racks() const { return rack_count_; }
  size_t alive_racks() const { return alive_racks_; }

 private:
  std::vector<ServerView> servers_;  // by id, so that ties break alike in every run
  std::vector<uint32_t> racks_;      // of each server
  std::unordered_map<ServerId, size_t> by_id_;
  size_t rack_count_ = 0, alive_racks_ = 0;
};

/// What the choice for a stripe's lost chunks depends on.
struct SelectionInput {
  const StripeView& stripe;
  std::vector<uint32_t>
      lost;  ///< chunks to rebuild in one pass, not empty; the first one's place is the root
  const erasure::Policy& policy;  ///< stripe.policy
  const ServerTable& servers;
  const SlotTable& slots;
  std::span<const ServerId> excluded;     ///< failed this chunk's last attempts: only if nothing else is left
  const std::set<ServerId>& suspects;     ///< failed some repair lately: others are preferred
  std::span<const ServerId> receiving;    ///< destinations of running repairs of the same stripe
  std::span<const ServerId> barred = {};  ///< must not be the destination now
  uint32_t rotation = 0;  ///< attempts after which nobody knew whom to blame: passes over other helpers
};

/// A data chunk without bytes is all zeros: it helps any repair and needs no server.
bool is_empty_data_chunk(const ChunkView& chunk, uint32_t k);
/// Chunks that can help to repair `lost` (pass chunks.size() for "of the whole stripe").
uint32_t usable_chunks(const StripeView& stripe, uint32_t k, uint32_t lost);

/// Indices of k helper chunks, best first. kUnavailable: fewer than k can be had; kLimitExceeded: enough, but
/// busy.
Result<std::vector<uint32_t>> select_helpers(const SelectionInput& input);

inline constexpr uint64_t kDestinationMarginBytes = 64 << 20;  ///< stays free on a destination

/// For the first lost chunk: a server that is alive, holds no chunk of the stripe and has the space; one that
/// keeps the stripe's rack spread if there is one; failing that the lost chunk's own server, if it is alive;
/// then any other. kNoSpace: none; kLimitExceeded: some, but busy.
Result<ServerId> select_destination(const SelectionInput& input);
/// The same checks for a destination that was asked for.
Status check_destination(const SelectionInput& input, ServerId wanted);

}  // namespace kintsugi::repair_manager
