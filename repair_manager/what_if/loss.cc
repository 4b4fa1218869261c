#include "repair_manager/what_if/loss.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "common/proto/meta.pb.h"
#include "repair_manager/what_if/approximation.h"
#include "repair_manager/what_if/random_stripes.h"
#include "repair_manager/what_if/simulated_loss.h"
#include "repair_manager/what_if/virtual_world.h"

namespace kintsugi::what_if {
namespace {

constexpr uint64_t kRoomForAll = uint64_t{1} << 60;

Status wrong(std::string what) {
  return {Code::kInvalidArgument, std::move(what)};
}

class Question {
 public:
  Question(const Cluster& cluster, const Loss& loss)
      : cluster_(cluster), loss_(loss), lost_(cluster.servers.size()), random_(loss.seed) {}

  Status check() {
    if (cluster_.servers.size() > kMostServers) return wrong(fmt::format("at most {} servers", kMostServers));
    for (const uint32_t server : loss_.servers) {
      if (server >= lost_.size()) return wrong("no such server");
      if (lost_[server]) return wrong(fmt::format("{} is named twice", cluster_.servers[server].name));
      lost_[server] = true;
    }
    if (loss_.servers.empty()) return wrong("no server is lost");
    size_t holders = 0;
    for (uint32_t i = 0; i < lost_.size(); ++i) {
      const Server& server = cluster_.servers[i];
      holders += server.alive && server.chunks > 0;
      if (lost_[i] && server.alive) lost_chunks_ += static_cast<double>(server.chunks);
    }
    if (lost_chunks_ > 0 && holders < cluster_.policy.chunks())
      return wrong(fmt::format("a stripe of {} needs {} servers with chunks, and there are {}",
                               cluster_.policy.name(), cluster_.policy.chunks(), holders));
    return {};
  }

  Result<Forecast> answer() {
    Forecast forecast{.chunks = lost_chunks_, .bytes = lost_chunks_ * cluster_.chunk_bytes};
    if (lost_chunks_ < 1) return forecast;
    Approximation how = choose_approximation(facts(), loss_.budget);
    if (loss_.simulate) how = {.method = Method::kSampled, .simulated = *loss_.simulate};
    if (how.simulated > kMostSimulated)
      return Status{
          Code::kLimitExceeded,
          fmt::format("{:.0f} lost chunks are too many for this budget: at most {} repairs are simulated",
                      lost_chunks_, kMostSimulated)};
    forecast.method = how.method;
    forecast.error = how.error;
    std::vector<std::vector<uint32_t>> stripes = draw_stripes(static_cast<double>(how.simulated));
    if (how.method == Method::kClosedForm) {
      fill_in(closed_form(stripes), forecast);
      return forecast;
    }
    simulate(std::move(stripes), forecast);
    return forecast;
  }

 private:
  double each(double chunks) const { return std::max(1.0, lost_chunks_ / chunks); }

  Facts facts() const {
    Facts facts{.policy = cluster_.policy, .lost_chunks = lost_chunks_, .lost_servers = loss_.servers.size()};
    double slowest = 0, fastest = 0;
    std::map<std::string_view, size_t> lost_in_rack;
    for (size_t i = 0; i < lost_.size(); ++i) {
      const Server& server = cluster_.servers[i];
      if (!server.alive || lost_[i]) continue;
      ++facts.alive;
      const double rate = std::min(server.up, server.down) - server.users;
      slowest = facts.alive == 1 ? rate : std::min(slowest, rate);
      fastest = std::max({fastest, server.up, server.down});
      if (server.draining || server.slow) facts.alike = false;
    }
    // Rates that are not known are alike.
    if (slowest < 0.98 * fastest || cluster_.rack_rate > 0) facts.alike = false;
    facts.one_chunk_a_stripe = lost_in_one_rack();
    return facts;
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
    for (double drawn = 0; drawn < chunks - 0.5;) {
      stripes.push_back(draw.that_loses(lost));
      drawn += static_cast<double>(
          std::ranges::count_if(stripes.back(), [&](uint32_t place) { return lost[place]; }));
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

  FluidState state_of(const std::vector<std::vector<uint32_t>>& stripes) const {
    FluidState state{.rack_rate = cluster_.rack_rate, .fills_up = true};
    if (cluster_.usual_rate > 0) state.link.bytes_per_second = cluster_.usual_rate;
    for (size_t i = 0; i < cluster_.servers.size(); ++i)
      state.servers.push_back(view_of(i));
    const auto bytes = static_cast<uint64_t>(cluster_.chunk_bytes);
    const std::string policy = cluster_.policy.name();
    for (const std::vector<uint32_t>& holders : stripes) {
      repair_manager::StripeView& stripe = state.stripes.emplace_back();
      stripe.id = StripeId{state.stripes.size()};
      stripe.policy = policy;
      stripe.length = bytes * cluster_.policy.k;
      for (uint32_t i = 0; i < holders.size(); ++i)
        stripe.chunks.push_back({.index = i,
                                 .server = ServerId{holders[i] + 1},
                                 .length = bytes,
                                 .available = !lost_[holders[i]]});
    }
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

  void simulate(std::vector<std::vector<uint32_t>> stripes, Forecast& forecast) {
    FluidState state = state_of(stripes);
    double drawn = 0;
    for (const auto& holders : stripes)
      drawn +=
          static_cast<double>(std::ranges::count_if(holders, [&](uint32_t place) { return lost_[place]; }));
    const double each = forecast.method == Method::kExact ? 1 : lost_chunks_ / drawn;
    state.repairs_each = each;
    const SimulatedLoss loss = simulate_loss(std::move(state), cluster_.policy, options(), kBusiestLinks);
    const double wait = cluster_.detection_seconds;
    const auto after = [wait](std::optional<double> time) {
      return time ? std::optional(*time + wait) : time;
    };
    forecast.repairs_each = each;
    forecast.simulated = loss.chunks;
    forecast.stripes = each * static_cast<double>(loss.stripes);
    forecast.lost_stripes = each * static_cast<double>(loss.lost_stripes);
    forecast.waiting_chunks = each * static_cast<double>(loss.waiting_chunks);
    forecast.begins_seconds = wait + loss.begins_seconds;
    forecast.half_seconds = after(loss.half_seconds);
    forecast.most_seconds = after(loss.most_seconds);
    forecast.all_seconds = after(loss.all_seconds);
    for (uint32_t spare = 0; spare < loss.by_spare.size(); ++spare)
      if (const auto& level = loss.by_spare[spare]; level.stripes > 0)
        forecast.endangered.push_back({.spare = spare,
                                       .stripes = each * static_cast<double>(level.stripes),
                                       .until_seconds = level.until_seconds + wait});
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

Result<Cluster> described(const Description& description) {
  const uint32_t chunks = description.policy.chunks();
  if (description.servers > kMostServers || description.stripes > kMostStripes)
    return wrong(fmt::format("at most {} servers and {} stripes", kMostServers, kMostStripes));
  if (description.servers < chunks)
    return wrong(fmt::format("a stripe of {} needs {} servers, one for each chunk, and there are {}",
                             description.policy.name(), chunks, description.servers));
  if (description.racks > description.servers)
    return wrong(fmt::format("{} servers do not fill {} racks", description.servers, description.racks));
  Cluster cluster{.policy = description.policy,
                  .chunk_bytes = description.chunk_bytes,
                  .usual_rate = description.link_rate};
  const double mean = static_cast<double>(description.stripes) * chunks / description.servers;
  for (uint32_t i = 0; i < description.servers; ++i)
    cluster.servers.push_back(
        {.name = fmt::format("server-{}", i + 1),
         .rack = fmt::format("rack-{}", description.racks > 0 ? i % description.racks + 1 : i + 1),
         .up = description.link_rate,
         .down = description.link_rate,
         .chunks = static_cast<uint64_t>(std::llround(mean)),
         .free_bytes = kRoomForAll});
  return cluster;
}

Server live_server(const proto::ServerState& state) {
  const auto limited = [&state](uint64_t rate) {
    const uint64_t limit = state.repair_limit_bytes_per_second();
    return static_cast<double>(limit > 0 && rate > 0 ? std::min(rate, limit) : rate);
  };
  return {.name = state.name(),
          .rack = state.rack(),
          .up = limited(state.up_bytes_per_second()),
          .down = limited(state.down_bytes_per_second()),
          .users = static_cast<double>(state.user_bytes_per_second()),
          .chunks = state.chunks(),
          .free_bytes = state.free_bytes(),
          .alive = state.liveness() != proto::ServerState::DEAD,
          .draining = state.draining(),
          .slow = state.has_slow()};
}

Result<Forecast> forecast_loss(const Cluster& cluster, const Loss& loss) {
  Question question(cluster, loss);
  KINTSUGI_TRY(question.check());
  return question.answer();
}

}  // namespace kintsugi::what_if
