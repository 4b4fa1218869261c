/// What a forecast of a loss knows of a cluster, which is there or only described.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "erasure/policy.h"
#include "repair_manager/view/cluster_view.h"

namespace kintsugi::proto {
class ServerState;
class Stripe;
}  // namespace kintsugi::proto

namespace kintsugi::what_if {

inline constexpr size_t kMostServers = 10'000;
inline constexpr uint64_t kMostStripes = 100'000'000;

struct Server {
  std::string name, rack;
  double up = 0, down = 0;  ///< bytes/s of its link; 0: not known
  double users = 0;         ///< bytes/s that users take of it
  uint64_t chunks = 0;      ///< chunks that it holds
  uint64_t free_bytes = 0;
  bool alive = true, draining = false, slow = false;
  ServerId id = {};  ///< the id that Cluster::stripes name it by; none: it is only described
};

struct Cluster {
  std::vector<Server> servers;
  erasure::Policy policy;
  double chunk_bytes = 64 << 20;
  double usual_rate = 0;           ///< bytes/s of links that are not known, while no other is
  double rack_rate = 0;            ///< bytes/s between a rack and the others, each way; 0: no limit
  double detection_seconds = 10;   ///< time until a silent server is dead: setting dead_after
  double heartbeat_seconds = 1;    ///< time between two heartbeats of a server: setting heartbeat_interval
  double delay_seconds = 15 * 60;  ///< setting repair.delay
  double repair_limit = 0;         ///< bytes/s that repairs may take of each link; 0: no limit
  uint32_t max_per_server = 16;    ///< setting repair.max_per_server
  /// All stripes with chunks on servers that are lost: places, policies and lengths are theirs. Nothing: they are not known,
  /// and drawn. REQUIRES: their policies are those that Policy::parse knows.
  std::optional<std::vector<repair_manager::StripeView>> stripes = {};
};

/// A cluster that is not there: equal servers, in racks of equal size.
struct Description {
  uint32_t servers = 0;
  uint32_t racks = 0;  ///< 0: every server is a rack of its own
  uint64_t stripes = 0;
  erasure::Policy policy;
  double chunk_bytes = 64 << 20;
  double link_rate = 10e9 / 8;
};
/// Servers are named server-1, server-2, ...; racks rack-1, rack-2, ... kInvalidArgument: too small or too large.
Result<Cluster> described(const Description& description);
/// What a metaserver says of stripes; those of a policy that is not known, which a later version has, are left out.
std::vector<repair_manager::StripeView> live_stripes(const std::vector<proto::Stripe>& stripes);
/// What a metaserver says of a server. A repair.bandwidth that it has is in its rate.
Server live_server(const proto::ServerState& state);

}  // namespace kintsugi::what_if
