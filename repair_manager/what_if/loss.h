/// Answers "if these servers die now, how long until all is whole?" by running the repair manager in virtual time.
///
/// ```cpp
/// Cluster cluster = *described({.servers = 1000, .stripes = 1'000'000, ...});
/// const Result<Forecast> forecast = forecast_loss(cluster, {.servers = {17}, .budget = 0.05});
/// ```
///
/// Where a stripe's chunks lie is drawn at random by the rule by which metaservers place them: servers with more chunks
/// are drawn more often, and no rack gets more of a stripe than its share. The result is a function of cluster, loss and
/// seed alone.
///
/// **Exact or approximate.** With a budget, one simulated repair stands for several of the waiting ones that follow one
/// another (sampling), or, where links are alike and chunks are many, times come from the closed form of
/// placement_bound.h and a factor that was fitted (docs/what_if.md has the measured errors of both). Exact means: every
/// lost chunk is repaired in the simulation, as the repair manager would. That is still a model: real repairs took within
/// kModelError of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "erasure/policy.h"

namespace kintsugi::proto {
class ServerState;
}

namespace kintsugi::what_if {

/// Real repairs take so much more or less than simulated ones (docs/benchmarks.md).
inline constexpr double kModelError = 0.07;
inline constexpr size_t kMostServers = 10'000;
inline constexpr uint64_t kMostStripes = 100'000'000;
/// So many repairs are simulated at most, whatever the budget.
inline constexpr size_t kMostSimulated = 200'000;

struct Server {
  std::string name, rack;
  double up = 0, down = 0;  ///< bytes/s of its link; 0: not known
  double users = 0;         ///< bytes/s that users take of it
  uint64_t chunks = 0;      ///< chunks that it holds
  uint64_t free_bytes = 0;
  bool alive = true, draining = false, slow = false;
};

struct Cluster {
  std::vector<Server> servers;
  erasure::Policy policy;
  double chunk_bytes = 64 << 20;
  double usual_rate = 0;           ///< bytes/s of links that are not known, while no other is
  double rack_rate = 0;            ///< bytes/s between a rack and the others, each way; 0: no limit
  double detection_seconds = 10;   ///< time until a silent server is dead: setting dead_after
  double delay_seconds = 15 * 60;  ///< setting repair.delay
  double repair_limit = 0;         ///< bytes/s that repairs may take of each link; 0: no limit
  uint32_t max_per_server = 16;    ///< setting repair.max_per_server
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
/// What a metaserver says of a server. A repair.bandwidth that it has is in its rate.
Server live_server(const proto::ServerState& state);

struct Loss {
  std::vector<uint32_t> servers;  ///< positions in Cluster::servers
  double budget = 0.05;           ///< largest error of the times as a share of them; 0: exact
  uint64_t seed = 1;
  std::optional<size_t> simulate =
      {};  ///< so many repairs, whatever the budget; the forecast then tells no error
};

enum class Method {
  kExact,       ///< every repair is simulated
  kSampled,     ///< one simulated repair stands for several
  kClosedForm,  ///< no repair is simulated
};
std::string_view method_name(Method method);  ///< "exact", "sampled", "closed form"

/// Stripes that are left with the same number of chunks that they may still lose.
struct Endangered {
  uint32_t spare = 0;        ///< 0: one more loss, and data is lost
  double stripes = 0;        ///< right after the loss
  double until_seconds = 0;  ///< then none of them is left with so few
};

struct BusyLink {
  std::string name;  ///< of the server or the rack
  bool rack = false, up = false;
  double bytes = 0;  ///< that repairs move over it
  double busy = 0;   ///< share of its rate that they take from the first repair's begin to the last one's end
};

/// Times are seconds since the loss.
struct Forecast {
  Method method = Method::kExact;
  double repairs_each = 1;  ///< repairs for which a simulated one stands
  double error = 0;         ///< expected largest error of the times by sampling or closed form, as a share
  double stripes = 0;       ///< that lack chunks
  double chunks = 0, bytes = 0;  ///< that are lost
  double lost_stripes = 0;       ///< that lack too many chunks: their data is lost
  double begins_seconds = 0;     ///< the first repair begins
  /// Half, 90 % and all of the bytes that can be rebuilt are. Nothing: there is nothing to rebuild, or no room for it.
  std::optional<double> half_seconds, most_seconds, all_seconds;
  double waiting_chunks = 0;           ///< that no server can take; times leave them out
  std::vector<Endangered> endangered;  ///< those with the fewest spare chunks first
  std::vector<BusyLink> busiest;       ///< at most kBusiestLinks
  uint64_t simulated = 0;              ///< repairs
};
inline constexpr size_t kBusiestLinks = 10;

/// kInvalidArgument: no such server, the same twice, or none that is alive. kLimitExceeded: too much for an exact answer.
Result<Forecast> forecast_loss(const Cluster& cluster, const Loss& loss);

}  // namespace kintsugi::what_if
