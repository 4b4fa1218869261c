/// Answers "if these servers die now, how long until all is whole?" by running the repair manager in virtual time.
///
/// ```cpp
/// Cluster cluster = *described({.servers = 1000, .stripes = 1'000'000, ...});
/// const Result<Forecast> forecast = forecast_loss(cluster, {.servers = {17}, .budget = 0.05});
/// ```
///
/// Chunks lie where Cluster::stripes says. Without it their places are drawn at random by the rule by which metaservers
/// place them: servers with more chunks are drawn more often, and no rack gets more of a stripe than its share. The result
/// is a function of cluster, loss and seed alone.
///
/// **Exact or approximate.** With a budget, one simulated repair stands for several of the waiting ones that follow one
/// another (sampling), or, where links are alike and chunks are many, times come from the closed form of
/// placement_bound.h and a factor that was fitted (docs/evidence/what_if.md has the measured errors of both). Exact
/// means: every lost chunk is repaired in the simulation, as the repair manager would. That is still a model: real
/// repairs took within kModelError of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "repair_manager/what_if/cluster.h"
#include "repair_manager/what_if/simulated_loss.h"

namespace kintsugi::what_if {

/// Real repairs take so much more or less than simulated ones (docs/benchmarks.md).
inline constexpr double kModelError = 0.07;
/// So many repairs are simulated at most, whatever the budget.
inline constexpr size_t kMostSimulated = 200'000;

struct Loss {
  std::vector<uint32_t> servers;  ///< positions in Cluster::servers
  double budget = 0.05;           ///< largest error of the times as a share of them; 0: exact
  uint64_t seed = 1;
  /// So many repairs are simulated, whatever the budget; the forecast then tells no error. 0: what the budget needs.
  uint64_t simulate = 0;
};

enum class Method {
  kExact,       ///< every repair is simulated
  kSampled,     ///< one simulated repair stands for several
  kClosedForm,  ///< no repair is simulated
};
std::string_view method_name(Method method);  ///< "exact", "sampled", "closed form"

/// Stripes that are left with the same number of chunks that they may still lose.
struct Endangered {
  uint32_t spare = 0;  ///< 0: one more loss, and data is lost
  double stripes = 0;  ///< right after the loss
  /// Time after which no stripe has so few spare chunks; nothing: some chunks wait.
  std::optional<double> until_seconds;
};

struct BusyLink {
  std::string name;  ///< name of the server or the rack
  bool rack = false, up = false;
  double bytes = 0;  ///< bytes that repairs move over the link
  double busy = 0;   ///< share of its rate that they take from the first repair's begin to the last one's end
};

/// Times are seconds since the loss.
struct Forecast {
  Method method = Method::kExact;
  double repairs_each = 1;  ///< repairs for which a simulated one stands
  double seconds_each = 1;  ///< the same of seconds; more than 1: times are in proportion to shorter ones
  double error = 0;         ///< expected largest error of the times by sampling or closed form, as a share
  double stripes = 0;       ///< stripes that lack chunks
  double chunks = 0, bytes = 0;  ///< lost chunks, and their bytes
  double lost_stripes = 0;       ///< stripes that lack too many chunks: their data is lost
  double begins_seconds = 0;     ///< the first repair begins
  /// Half, 90 % and all of the bytes that can be rebuilt are. Nothing: there is nothing to rebuild, or no room for it.
  std::optional<double> half_seconds, most_seconds, all_seconds;
  double waiting_chunks = 0;           ///< chunks that no server can take; times leave them out
  std::vector<Endangered> endangered;  ///< endangered chunks, those with the fewest spare chunks first
  std::vector<BusyLink> busiest;       ///< the links that carry most, at most kBusiestLinks
  uint64_t simulated = 0;              ///< repairs

  /// The range in which a time of this forecast lies in reality: its error, and kModelError.
  double earliest(double seconds) const;
  double latest(double seconds) const;
  /// Until when some data is one failure from loss. Nothing: none is, or it stays so until more servers are there.
  std::optional<double> one_failure_until() const;
};
inline constexpr size_t kBusiestLinks = 10;

/// kInvalidArgument: no such server, the same twice, or none that is alive. kLimitExceeded: too much for an exact answer.
Result<Forecast> forecast_loss(const Cluster& cluster, const Loss& loss);
/// The simulation behind an exact forecast, as coarse as the knobs say. kInvalidArgument: as
/// forecast_loss.
Result<SimulatedLoss> simulate_servers_lost(const Cluster& cluster, const Loss& loss,
                                            const WhatIfKnobs& knobs);

}  // namespace kintsugi::what_if
