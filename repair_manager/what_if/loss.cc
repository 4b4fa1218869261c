#include "repair_manager/what_if/loss.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "repair_manager/what_if/approximation.h"
#include "repair_manager/what_if/bundles.h"
#include "repair_manager/what_if/lost_stripes.h"
#include "repair_manager/what_if/simulated_loss.h"

namespace kintsugi::what_if {
namespace {

// A simulated repair takes at most the time of so many real ones. One that stands for more is simulated on a shorter
// scale of time: the repair manager looks for what it can start every second, and a year of that would take hours.
constexpr double kMostTime = 16;
// The metaserver looks for dead servers so often in a heartbeat interval.
constexpr uint32_t kLooks = 4;
// Rates that differ by less are the same.
constexpr double kEven = 0.98;

class Question {
 public:
  Question(const Cluster& cluster, const Loss& loss, const std::vector<bool>& lost)
      : cluster_(cluster),
        loss_(loss),
        lost_(lost),
        stripes_(cluster, lost, loss.seed),
        heard_before_(heard_before(cluster, lost, loss.seed)),
        first_(std::ranges::max(heard_before_)) {}

  /// The servers that are lost, by position. kInvalidArgument: no such server, the same twice, or none.
  static Result<std::vector<bool>> lost_servers(const Cluster& cluster, const Loss& loss) {
    if (cluster.servers.size() > kMostServers)
      return invalid(fmt::format("at most {} servers", kMostServers));
    std::vector<bool> lost(cluster.servers.size());
    for (const uint32_t server : loss.servers) {
      if (server >= lost.size()) return invalid("no such server");
      if (lost[server]) return invalid(fmt::format("{} is named twice", cluster.servers[server].name));
      lost[server] = true;
    }
    if (loss.servers.empty()) return invalid("no server is lost");
    return lost;
  }

  Status check() const {
    if (stripes_.can_be()) return {};
    return invalid(fmt::format("a stripe of {} needs {} servers with chunks, and there are {}",
                               cluster_.policy.name(), cluster_.policy.chunks(), stripes_.holders()));
  }

  SimulatedLoss coarse(const WhatIfKnobs& knobs) {
    std::vector<uint32_t> bundles;
    for (size_t phase = 0; phase < knobs.phases.size(); ++phase)
      bundles.push_back(repairs_in_bundle(knobs.level(phase, Block::kBundle)));
    return simulate_loss(bundled(state_of(stripes_.chunks()), bundles), options(), kBusiestLinks, knobs);
  }

  Result<Forecast> answer() {
    Forecast forecast{.chunks = stripes_.chunks(), .bytes = stripes_.bytes()};
    if (stripes_.chunks() < 1) return forecast;
    Approximation how = choose_approximation(facts(), loss_.budget);
    if (loss_.simulate > 0)
      how = {.method = Method::kSampled, .simulated = static_cast<double>(loss_.simulate)};
    forecast.method = how.method;
    forecast.error = how.error;
    if (how.method == Method::kClosedForm) {
      fill_in(closed_form(), forecast);
      return forecast;
    }
    const double repairs =
        how.method == Method::kExact ? stripes_.chunks() : std::min(stripes_.chunks(), how.simulated);
    if (repairs > kMostSimulated)
      return Status{
          Code::kLimitExceeded,
          fmt::format("{:.0f} repairs would have to be simulated for this budget, of which {} are the most",
                      repairs, kMostSimulated)};
    simulate(repairs, forecast);
    return forecast;
  }

 private:
  /// Seconds by which each server is declared dead before detection_seconds have passed since the loss, by position. Its
  /// last heartbeat was up to one interval before the loss, so that several are declared dead one after another, each when
  /// the metaserver looks the next time. One server alone counts as declared at the end.
  static std::vector<double> heard_before(const Cluster& cluster, const std::vector<bool>& lost,
                                          uint64_t seed) {
    std::vector<double> before(lost.size());
    SeededRandom random(~seed);  // other numbers than those by which stripes are drawn
    const auto dies = [&](size_t i) { return lost[i] && cluster.servers[i].alive; };
    size_t dying = 0;
    for (size_t i = 0; i < lost.size(); ++i)
      dying += dies(i);
    for (size_t i = 0; i < lost.size() && dying > 1; ++i)
      if (dies(i))
        before[i] = cluster.heartbeat_seconds * static_cast<double>(random.below(kLooks)) / double{kLooks};
    return before;
  }

  /// Seconds from the loss until the first server is declared dead.
  double first_declared() const { return cluster_.detection_seconds - first_; }

  Facts facts() const {
    Facts facts{
        .policy = stripes_.policy(), .lost_chunks = stripes_.chunks(), .lost_servers = loss_.servers.size()};
    double slowest = 0, fastest = 0;
    for (size_t i = 0; i < lost_.size(); ++i) {
      const Server& server = cluster_.servers[i];
      if (!server.alive || lost_[i]) continue;
      ++facts.alive;
      const double rate = std::min(server.up, server.down) - server.users;
      slowest = facts.alive == 1 ? rate : std::min(slowest, rate);
      fastest = std::max({fastest, server.up, server.down});
      if (server.draining || server.slow) facts.even = false;
    }
    // Rates that are not known are alike.
    if (slowest < kEven * fastest) facts.even = false;
    const bool known = fastest > 0 || cluster_.usual_rate > 0;
    facts.alike =
        facts.even && known && cluster_.rack_rate == 0 && has_room(facts.alive) && stripes_.of_one_policy();
    facts.one_chunk_a_stripe = stripes_.one_chunk_each();
    return facts;
  }

  /// Every server that is left can take twice its share of what is lost.
  bool has_room(size_t alive) const {
    const double share = 2 * stripes_.bytes() / static_cast<double>(std::max<size_t>(1, alive));
    for (size_t i = 0; i < lost_.size(); ++i)
      if (cluster_.servers[i].alive && !lost_[i] &&
          static_cast<double>(cluster_.servers[i].free_bytes) < share)
        return false;
    return true;
  }

  repair_manager::ServerView view_of(size_t i) const {
    const Server& server = cluster_.servers[i];
    return {.id = ServerId{i + 1},
            .name = server.name,
            .rack = server.rack,
            .alive = server.alive && !lost_[i],
            .free_bytes = server.free_bytes,
            .user_bytes_per_second = static_cast<uint64_t>(server.users),
            .up_bytes_per_second = static_cast<uint64_t>(server.up),
            .down_bytes_per_second = static_cast<uint64_t>(server.down),
            .repair_limit_bytes_per_second = static_cast<uint64_t>(cluster_.repair_limit),
            .draining = server.draining,
            .slow = server.slow};
  }

  FluidState state_of(double repairs) {
    FluidState state{.rack_rate = cluster_.rack_rate, .fills_up = true};
    for (size_t i = 0; i < lost_.size(); ++i)
      state.declared_seconds.push_back(lost_[i] && cluster_.servers[i].alive ? first_ - heard_before_[i] : 0);
    if (cluster_.usual_rate > 0) state.link.bytes_per_second = cluster_.usual_rate;
    for (size_t i = 0; i < cluster_.servers.size(); ++i)
      state.servers.push_back(view_of(i));
    state.stripes = stripes_.take(repairs);
    size_t taken = 0;
    for (const repair_manager::StripeView& stripe : state.stripes)
      taken += LostStripes::lacking(stripe);
    state.repairs_each = stripes_.chunks() / static_cast<double>(taken);
    state.seconds_each = std::max(1.0, state.repairs_each / kMostTime);
    return state;
  }

  repair_manager::Options options() const {
    repair_manager::Options options;
    options.delay = seconds(cluster_.delay_seconds);
    options.max_per_server = cluster_.max_per_server;
    options.history = 0;
    if (cluster_.usual_rate > 0) options.link.bytes_per_second = cluster_.usual_rate;
    return options;
  }

  static Duration seconds(double number) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(number));
  }

  void simulate(double repairs, Forecast& forecast) {
    FluidState state = state_of(repairs);
    forecast.seconds_each = state.seconds_each;
    const SimulatedLoss loss = simulate_loss(std::move(state), options(), kBusiestLinks);
    const double wait = first_declared();
    const auto after = [wait](std::optional<double> time) {
      return time ? std::optional(*time + wait) : time;
    };
    forecast.simulated = loss.simulated;
    forecast.repairs_each = stripes_.chunks() / static_cast<double>(loss.simulated);
    forecast.stripes = loss.stripes;
    forecast.lost_stripes = loss.lost_stripes;
    forecast.waiting_chunks = loss.waiting_chunks;
    forecast.begins_seconds = wait + loss.begins_seconds;
    forecast.half_seconds = after(loss.half_seconds);
    forecast.most_seconds = after(loss.most_seconds);
    forecast.all_seconds = after(loss.all_seconds);
    for (uint32_t spare = 0; spare < loss.by_spare.size(); ++spare)
      if (const auto& level = loss.by_spare[spare]; level.stripes > 0)
        forecast.endangered.push_back({.spare = spare,
                                       .stripes = level.stripes,
                                       .until_seconds = loss.waiting_chunks > 0
                                                            ? std::nullopt
                                                            : std::optional(level.until_seconds + wait)});
    for (const LinkUse& use : loss.busiest)
      forecast.busiest.push_back(named(use, loss.rack_links));
  }

  BusyLink named(const LinkUse& use, size_t rack_links) const {
    const bool rack = rack_links > 0 && use.link >= rack_links;
    const size_t number = (rack ? use.link - rack_links : use.link) / 2;
    return {.name = rack ? rack_name(number) : cluster_.servers[number].name,
            .rack = rack,
            .up = use.link % 2 == 0,
            .bytes = use.bytes,
            .busy = use.busy};
  }

  /// Racks are numbered in the order of their first servers.
  std::string rack_name(size_t number) const {
    std::map<std::string_view, size_t> seen;
    for (const Server& server : cluster_.servers)
      if (seen.emplace(server.rack, seen.size()).first->second == number) return server.rack;
    return "";
  }

  ClosedForm closed_form() {
    std::vector<PlacementLink> links;
    for (size_t i = 0; i < cluster_.servers.size(); ++i) {
      const Server& server = cluster_.servers[i];
      double rate = server.up > 0 ? server.up : cluster_.usual_rate;
      if (cluster_.repair_limit > 0) rate = std::min(rate, cluster_.repair_limit);
      links.push_back(server.alive && !lost_[i] ? PlacementLink{rate, rate} : PlacementLink{});
    }
    const auto holders = LostStripes::left_of(stripes_.take(std::min(stripes_.chunks(), kMostBoundStripes)));
    const double chunk_bytes = stripes_.bytes() / stripes_.chunks();
    return closed_form_times(holders, links, {stripes_.policy(), stripes_.chunks(), chunk_bytes});
  }

  void fill_in(const ClosedForm& times, Forecast& forecast) const {
    const uint32_t spare = stripes_.policy().tolerated() - 1;
    const double begins = first_declared() + (spare > 1 ? cluster_.delay_seconds : 0);
    forecast.repairs_each = 0;
    forecast.stripes = stripes_.chunks();
    forecast.begins_seconds = begins;
    forecast.half_seconds = begins + times.half;
    forecast.most_seconds = begins + times.most;
    forecast.all_seconds = begins + times.all;
    forecast.endangered.push_back({spare, stripes_.chunks(), begins + times.all});
  }

  const Cluster& cluster_;
  const Loss& loss_;
  const std::vector<bool> lost_;
  LostStripes stripes_;
  const std::vector<double> heard_before_;  // index: server
  const double first_;                      // the largest of them
};

}  // namespace

std::string_view method_name(Method method) {
  switch (method) {
    case Method::kExact: return "exact";
    case Method::kSampled: return "sampled";
    case Method::kClosedForm: return "closed form";
  }
  return "";
}

Result<Forecast> forecast_loss(const Cluster& cluster, const Loss& loss) {
  KINTSUGI_ASSIGN(const std::vector<bool> lost, Question::lost_servers(cluster, loss));
  Question question(cluster, loss, lost);
  KINTSUGI_TRY(question.check());
  return question.answer();
}

Result<SimulatedLoss> simulate_servers_lost(const Cluster& cluster, const Loss& loss,
                                            const WhatIfKnobs& knobs) {
  KINTSUGI_ASSIGN(const std::vector<bool> lost, Question::lost_servers(cluster, loss));
  Question question(cluster, loss, lost);
  KINTSUGI_TRY(question.check());
  return question.coarse(knobs);
}

double Forecast::earliest(double seconds) const {
  return begins_seconds + (seconds - begins_seconds) * (1 - error) / (1 + kModelError);
}

double Forecast::latest(double seconds) const {
  return begins_seconds + (seconds - begins_seconds) * (1 + error) * (1 + kModelError);
}

std::optional<double> Forecast::one_failure_until() const {
  if (endangered.empty() || endangered.front().spare > 0) return std::nullopt;
  return endangered.front().until_seconds;
}

}  // namespace kintsugi::what_if
