#include "repair_manager/what_if/loss.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "repair_manager/what_if/approximation.h"
#include "repair_manager/what_if/bundles.h"
#include "repair_manager/what_if/random_stripes.h"
#include "repair_manager/what_if/simulated_loss.h"
#include "repair_manager/what_if/virtual_world.h"

namespace kintsugi::what_if {
namespace {

// After so many stripes that lose more chunks than are left to draw, these few are left out.
constexpr int kMostMisses = 100;
// A simulated repair takes at most the time of so many real ones. One that stands for more is simulated on a shorter
// scale of time: the repair manager looks for what it can start every second, and a year of that would take hours.
constexpr double kMostTime = 16;
// Rates that differ by less are the same.
constexpr double kEven = 0.98;

Status wrong_loss(std::string what) {
  return {Code::kInvalidArgument, std::move(what)};
}

class Question {
 public:
  Question(const Cluster& cluster, const Loss& loss)
      : cluster_(cluster), loss_(loss), lost_(cluster.servers.size()), random_(loss.seed) {}

  Status check() {
    if (cluster_.servers.size() > kMostServers)
      return wrong_loss(fmt::format("at most {} servers", kMostServers));
    for (const uint32_t server : loss_.servers) {
      if (server >= lost_.size()) return wrong_loss("no such server");
      if (lost_[server]) return wrong_loss(fmt::format("{} is named twice", cluster_.servers[server].name));
      lost_[server] = true;
    }
    if (loss_.servers.empty()) return wrong_loss("no server is lost");
    size_t holders = 0;
    for (uint32_t i = 0; i < lost_.size(); ++i) {
      const Server& server = cluster_.servers[i];
      holders += server.alive && server.chunks > 0;
      if (lost_[i] && server.alive) lost_chunks_ += static_cast<double>(server.chunks);
    }
    if (lost_chunks_ > 0 && holders < cluster_.policy.chunks())
      return wrong_loss(fmt::format("a stripe of {} needs {} servers with chunks, and there are {}",
                                    cluster_.policy.name(), cluster_.policy.chunks(), holders));
    return {};
  }

  SimulatedLoss coarse(const WhatIfKnobs& knobs) {
    std::vector<uint32_t> bundles;
    for (size_t phase = 0; phase < knobs.phases.size(); ++phase)
      bundles.push_back(repairs_in_bundle(knobs.level(phase, Block::kBundle)));
    return simulate_loss(bundled(state_of(lost_chunks_), bundles), cluster_.policy, options(), kBusiestLinks,
                         knobs);
  }

  Result<Forecast> answer() {
    Forecast forecast{.chunks = lost_chunks_, .bytes = lost_chunks_ * cluster_.chunk_bytes};
    if (lost_chunks_ < 1) return forecast;
    Approximation how = choose_approximation(facts(), loss_.budget);
    if (loss_.simulate > 0)
      how = {.method = Method::kSampled, .simulated = static_cast<double>(loss_.simulate)};
    forecast.method = how.method;
    forecast.error = how.error;
    if (how.method == Method::kClosedForm) {
      fill_in(closed_form(draw_stripes(std::min(lost_chunks_, kMostBoundStripes))), forecast);
      return forecast;
    }
    const double repairs =
        how.method == Method::kExact ? lost_chunks_ : std::min(lost_chunks_, how.simulated);
    if (repairs > kMostSimulated)
      return Status{
          Code::kLimitExceeded,
          fmt::format("{:.0f} repairs would have to be simulated for this budget, of which {} are the most",
                      repairs, kMostSimulated)};
    simulate(repairs, forecast);
    return forecast;
  }

 private:
  Facts facts() const {
    Facts facts{.policy = cluster_.policy, .lost_chunks = lost_chunks_, .lost_servers = loss_.servers.size()};
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
    facts.alike = facts.even && known && cluster_.rack_rate == 0 && has_room(facts.alive);
    facts.one_chunk_a_stripe = lost_in_one_rack();
    return facts;
  }

  /// Every server that is left can take twice its share of what is lost.
  bool has_room(size_t alive) const {
    const double share =
        2 * lost_chunks_ * cluster_.chunk_bytes / static_cast<double>(std::max<size_t>(1, alive));
    for (size_t i = 0; i < lost_.size(); ++i)
      if (cluster_.servers[i].alive && !lost_[i] &&
          static_cast<double>(cluster_.servers[i].free_bytes) < share)
        return false;
    return true;
  }

  /// No stripe loses two chunks: there are more racks than a stripe has chunks, and one of them has all that is lost.
  bool lost_in_one_rack() const {
    std::map<std::string_view, bool> racks;
    for (size_t i = 0; i < lost_.size(); ++i)
      if (cluster_.servers[i].alive && cluster_.servers[i].chunks > 0)
        racks[cluster_.servers[i].rack] |= lost_[i];
    const auto hit = std::ranges::count_if(racks, [](const auto& rack) { return rack.second; });
    return loss_.servers.size() == 1 || (hit == 1 && racks.size() >= cluster_.policy.chunks());
  }

  /// The places of the chunks of stripes that together lose so many.
  std::vector<std::vector<uint32_t>> draw_stripes(double chunks) {
    std::map<std::string_view, uint32_t> racks;
    std::vector<RandomStripes::Place> places;
    std::vector<bool> lost;
    for (size_t i = 0; i < lost_.size(); ++i) {
      const Server& server = cluster_.servers[i];
      const uint32_t rack = racks.emplace(server.rack, static_cast<uint32_t>(racks.size())).first->second;
      places.push_back({.rack = rack, .weight = server.alive ? static_cast<double>(server.chunks) : 0.0});
      lost.push_back(lost_[i] && places.back().weight > 0);
    }
    RandomStripes draw(places, cluster_.policy.chunks(), random_);
    std::vector<std::vector<uint32_t>> stripes;
    int misses = 0;
    for (double drawn = 0; drawn < chunks - 0.5 && misses < kMostMisses;) {
      std::vector<uint32_t> holders = draw.that_loses(lost);
      const double losses = losses_of(holders);
      if (drawn + losses > chunks + 0.5) {
        ++misses;
        continue;
      }
      drawn += losses;
      stripes.push_back(std::move(holders));
    }
    return stripes;
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

  double losses_of(const std::vector<uint32_t>& holders) const {
    return static_cast<double>(
        std::ranges::count_if(holders, [this](uint32_t place) { return lost_[place]; }));
  }

  repair_manager::StripeView stripe_of(const std::vector<uint32_t>& holders, StripeId id) const {
    const auto bytes = static_cast<uint64_t>(cluster_.chunk_bytes);
    repair_manager::StripeView stripe{
        .id = id, .policy = cluster_.policy.name(), .length = bytes * cluster_.policy.k};
    for (uint32_t i = 0; i < holders.size(); ++i)
      stripe.chunks.push_back(
          {.index = i, .server = ServerId{holders[i] + 1}, .length = bytes, .available = !lost_[holders[i]]});
    return stripe;
  }

  FluidState state_of(double repairs) {
    FluidState state{.rack_rate = cluster_.rack_rate, .fills_up = true};
    if (cluster_.usual_rate > 0) state.link.bytes_per_second = cluster_.usual_rate;
    for (size_t i = 0; i < cluster_.servers.size(); ++i)
      state.servers.push_back(view_of(i));
    double drawn = 0;
    for (const std::vector<uint32_t>& holders : draw_stripes(repairs)) {
      state.stripes.push_back(stripe_of(holders, StripeId{state.stripes.size() + 1}));
      drawn += losses_of(holders);
    }
    state.repairs_each = lost_chunks_ / drawn;
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
    const SimulatedLoss loss = simulate_loss(std::move(state), cluster_.policy, options(), kBusiestLinks);
    const double wait = cluster_.detection_seconds;
    const auto after = [wait](std::optional<double> time) {
      return time ? std::optional(*time + wait) : time;
    };
    forecast.simulated = loss.simulated;
    forecast.repairs_each = lost_chunks_ / static_cast<double>(loss.simulated);
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

  ClosedForm closed_form(const std::vector<std::vector<uint32_t>>& stripes) const {
    std::vector<PlacementLink> links;
    for (size_t i = 0; i < cluster_.servers.size(); ++i) {
      const Server& server = cluster_.servers[i];
      double rate = server.up > 0 ? server.up : cluster_.usual_rate;
      if (cluster_.repair_limit > 0) rate = std::min(rate, cluster_.repair_limit);
      links.push_back(server.alive && !lost_[i] ? PlacementLink{rate, rate} : PlacementLink{});
    }
    std::vector<PlacementBound::Holders> holders;
    for (const std::vector<uint32_t>& stripe : stripes) {
      PlacementBound::Holders& mine = holders.emplace_back();
      for (const uint32_t place : stripe)
        if (!lost_[place]) mine.push_back(place);
    }
    return closed_form_times(holders, links, {cluster_.policy, lost_chunks_, cluster_.chunk_bytes});
  }

  void fill_in(const ClosedForm& times, Forecast& forecast) const {
    const uint32_t spare = cluster_.policy.tolerated() - 1;
    const double begins = cluster_.detection_seconds + (spare > 1 ? cluster_.delay_seconds : 0);
    forecast.repairs_each = 0;
    forecast.stripes = lost_chunks_;
    forecast.begins_seconds = begins;
    forecast.half_seconds = begins + times.half;
    forecast.most_seconds = begins + times.most;
    forecast.all_seconds = begins + times.all;
    forecast.endangered.push_back({spare, lost_chunks_, begins + times.all});
  }

  const Cluster& cluster_;
  const Loss& loss_;
  std::vector<bool> lost_;
  double lost_chunks_ = 0;
  SeededRandom random_;
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
  Question question(cluster, loss);
  KINTSUGI_TRY(question.check());
  return question.answer();
}

Result<SimulatedLoss> simulate_servers_lost(const Cluster& cluster, const Loss& loss,
                                            const WhatIfKnobs& knobs) {
  Question question(cluster, loss);
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
