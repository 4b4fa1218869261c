#include "repair_manager/joint_schedule.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

namespace kintsugi::repair_manager {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
// After so many repairs in a row that did not fit, the servers are taken to be full.
constexpr size_t kMaxMisses = 64;

/// The matching of repairs to helpers at one fill level.
class Matching {
 public:
  Matching(std::span<const JointServer> servers, std::span<const JointRepair> repairs,
           std::vector<uint32_t> capacity)
      : servers_(servers),
        repairs_(repairs),
        capacity_(std::move(capacity)),
        load_(servers.size()),
        helped_(servers.size()),
        chosen_(repairs.size()),
        seen_(servers.size()),
        from_(servers.size()),
        by_(servers.size()) {
    for (size_t i = 0; i < servers.size(); ++i)
      load_[i] = servers[i].helping;
  }

  /// Gives the repair its helpers, moving others if need be. False, and nothing changed, when that cannot be.
  bool let_in(size_t repair) {
    chosen_[repair].assign(repairs_[repair].candidates.size(), false);
    const size_t before = steps_.size();
    for (uint32_t i = 0; i < repairs_[repair].needed; ++i) {
      if (augment(static_cast<uint32_t>(repair))) continue;
      while (steps_.size() > before)
        undo();
      return false;
    }
    steps_.clear();
    return true;
  }

  /// Candidates that have room, without moving anybody.
  size_t free_candidates(size_t repair) const {
    return static_cast<size_t>(
        std::ranges::count_if(repairs_[repair].candidates, [&](uint32_t s) { return has_room(s); }));
  }

  uint32_t load(uint32_t server) const { return load_[server]; }
  bool chosen(size_t repair, size_t candidate) const { return chosen_[repair][candidate]; }

 private:
  // One assignment of an augmenting path: `repair` is helped by `to` and no longer by `from`.
  struct Step {
    uint32_t repair, from, to;
  };

  bool has_room(uint32_t server) const { return load_[server] < capacity_[server]; }

  size_t candidate_of(uint32_t repair, uint32_t server) const {
    const auto& candidates = repairs_[repair].candidates;
    return static_cast<size_t>(std::ranges::find(candidates, server) - candidates.begin());
  }

  void assign(uint32_t repair, uint32_t from, uint32_t to) {
    if (from != kNone) {
      chosen_[repair][candidate_of(repair, from)] = false;
      std::erase(helped_[from], repair);
      --load_[from];
    }
    if (to != kNone) {
      chosen_[repair][candidate_of(repair, to)] = true;
      helped_[to].push_back(repair);
      ++load_[to];
    }
  }

  void undo() {
    const Step step = steps_.back();
    steps_.pop_back();
    assign(step.repair, step.to, step.from);
  }

  /// One more helper for `repair`: the shortest chain of moves that ends on a server with room, of those the
  /// one that is least loaded at the first hop.
  bool augment(uint32_t repair) {
    ++stamp_;
    frontier_.clear();
    std::vector<uint32_t> first;
    const auto& candidates = repairs_[repair].candidates;
    for (size_t c = 0; c < candidates.size(); ++c)
      if (!chosen_[repair][c]) first.push_back(candidates[c]);
    std::ranges::stable_sort(
        first, {}, [&](uint32_t s) { return static_cast<double>(load_[s]) / std::max(1u, capacity_[s]); });
    for (uint32_t server : first)
      if (reach(server, kNone, repair)) return apply(server);
    while (!frontier_.empty()) {
      const uint32_t server = frontier_.front();
      frontier_.pop_front();
      for (uint32_t other : helped_[server]) {
        const auto& choices = repairs_[other].candidates;
        for (size_t c = 0; c < choices.size(); ++c)
          if (!chosen_[other][c] && reach(choices[c], server, other)) return apply(choices[c]);
      }
    }
    return false;
  }

  // True when it has room. `by` would be helped by it instead of by `from`.
  bool reach(uint32_t server, uint32_t from, uint32_t by) {
    if (seen_[server] == stamp_) return false;
    seen_[server] = stamp_;
    from_[server] = from;
    by_[server] = by;
    if (has_room(server)) return true;
    if (capacity_[server] > 0) frontier_.push_back(server);
    return false;
  }

  bool apply(uint32_t end) {
    for (uint32_t to = end; to != kNone; to = from_[to]) {
      steps_.push_back({by_[to], from_[to], to});
      assign(by_[to], from_[to], to);
    }
    return true;
  }

  std::span<const JointServer> servers_;
  std::span<const JointRepair> repairs_;
  std::vector<uint32_t> capacity_, load_;
  std::vector<std::vector<uint32_t>> helped_;  // by server: repairs of this schedule
  std::vector<std::vector<bool>> chosen_;      // by repair: its candidates that help
  std::vector<uint32_t> seen_, from_, by_;     // of the search under way
  uint32_t stamp_ = 0;
  std::deque<uint32_t> frontier_;
  std::vector<Step> steps_;
};

double typical_rate(std::span<const JointServer> servers) {
  std::vector<double> rates;
  for (const JointServer& server : servers)
    if (server.can_help) rates.push_back(server.rate);
  if (rates.empty()) return 1;
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return std::max(*middle, 1e-9);
}

std::vector<uint32_t> capacities(std::span<const JointServer> servers, double typical, uint32_t level,
                                 uint32_t most) {
  std::vector<uint32_t> capacity;
  for (const JointServer& server : servers) {
    const double fair = std::floor(level * server.rate / typical + 0.25);
    capacity.push_back(server.can_help ? static_cast<uint32_t>(std::min<double>(fair, most)) : 0);
  }
  return capacity;
}

/// What everybody receives, and who is to receive next.
class Downloads {
 public:
  Downloads(std::span<const JointServer> servers, const Matching& matching) : servers_(servers) {
    for (uint32_t i = 0; i < servers.size(); ++i)
      sums_.push_back(servers[i].receiving + matching.load(i) - servers[i].helping);
  }
  double pressure(uint32_t server) const { return sums_[server] / std::max(servers_[server].rate, 1e-9); }
  void is_leaf(uint32_t server) { --sums_[server]; }

  /// After all leaves are known: the server with the least pressure that `allowed` lets.
  template <class Allowed>
  uint32_t take_destination(Allowed allowed) {
    if (order_.empty())
      for (uint32_t i = 0; i < servers_.size(); ++i)
        if (servers_[i].can_receive) order_.emplace(pressure(i), i);
    for (auto at = order_.begin(); at != order_.end(); ++at) {
      const uint32_t server = at->second;
      if (!allowed(server)) continue;
      order_.erase(at);
      ++sums_[server];
      order_.emplace(pressure(server), server);
      return server;
    }
    return kNone;
  }

 private:
  std::span<const JointServer> servers_;
  std::vector<uint32_t> sums_;
  std::set<std::pair<double, uint32_t>> order_;
};

/// Leaves and destinations.
std::vector<JointChoice> complete(std::span<const JointServer> servers, std::span<const JointRepair> repairs,
                                  const Matching& matching, std::span<const size_t> accepted,
                                  const std::function<bool(size_t, uint32_t)>& may_receive) {
  Downloads downloads(servers, matching);
  std::vector<JointChoice> choices;  // all leaves first
  for (size_t repair : accepted) {
    const std::vector<uint32_t>& candidates = repairs[repair].candidates;
    JointChoice choice{.repair = repair};
    for (uint32_t c = 0; c < candidates.size(); ++c)
      if (matching.chosen(repair, c)) choice.helpers.push_back(c);
    if (!choice.helpers.empty()) {
      const auto leaf = std::ranges::max_element(
          choice.helpers, {}, [&](uint32_t c) { return downloads.pressure(candidates[c]); });
      downloads.is_leaf(candidates[*leaf]);
      std::iter_swap(leaf, choice.helpers.end() - 1);
    }
    choices.push_back(std::move(choice));
  }
  std::vector<JointChoice> placed;
  for (JointChoice& choice : choices) {
    choice.destination =
        downloads.take_destination([&](uint32_t server) { return may_receive(choice.repair, server); });
    if (choice.destination != kNone) placed.push_back(std::move(choice));
  }
  return placed;
}

}  // namespace

std::vector<JointChoice> schedule_jointly(
    std::span<const JointServer> servers, std::span<const JointRepair> repairs, const JointLimits& limits,
    const std::function<bool(size_t repair, uint32_t server)>& may_receive) {
  const double typical = typical_rate(servers);
  double total = 0, busy = 0, wanted = 0;  // in repairs helped; total at level 1
  for (const JointServer& server : servers) {
    if (server.can_help) total += server.rate / typical;
    busy += server.helping;
  }
  if (repairs.empty() || total == 0) return {};
  for (const JointRepair& repair : repairs)
    wanted += repair.needed;

  std::vector<size_t> accepted;
  const auto fill = [&](Matching& matching, bool all_or_nothing) {
    accepted.clear();
    size_t misses = 0;
    for (size_t i = 0; i < repairs.size() && misses < kMaxMisses; ++i) {
      // With few exceptions a repair gets in by at most a few moves of those accepted before; that saves most
      // of the searching.
      const bool hopeless =
          !all_or_nothing &&
          matching.free_candidates(i) + std::min<size_t>(3, accepted.size()) < repairs[i].needed;
      if (!hopeless && matching.let_in(i)) {
        accepted.push_back(i);
        misses = 0;
      } else if (all_or_nothing) {
        return false;
      } else if (!hopeless) {
        ++misses;
      }
    }
    return true;
  };

  // All of them at the lowest level that takes them. The last ones may go above what others are to leave
  // free.
  const uint32_t highest = limits.waiting > repairs.size() ? limits.level : limits.most;
  const auto lowest = static_cast<uint32_t>(std::max(1.0, std::ceil((busy + wanted) / total)));
  for (uint32_t level = lowest; level <= highest; ++level) {
    Matching matching(servers, repairs, capacities(servers, typical, level, limits.most));
    if (!fill(matching, /*all_or_nothing=*/true)) continue;
    return complete(servers, repairs, matching, accepted, may_receive);
  }
  Matching matching(servers, repairs, capacities(servers, typical, limits.level, limits.most));
  fill(matching, /*all_or_nothing=*/false);
  return complete(servers, repairs, matching, accepted, may_receive);
}

}  // namespace kintsugi::repair_manager
