#include "repair_manager/joint/joint_schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <queue>

#include "repair_manager/joint/joint_chains.h"

namespace kintsugi::repair_manager {
namespace {

// With few exceptions a repair gets in by at most so many moves of those accepted before; to look no further
// saves most of the searching.
constexpr size_t kFewMoves = 3;
// After so many repairs in a row that did not fit, the servers are taken to be full.
constexpr size_t kMaxMisses = 64;
// Chains for parts are more streams, so the work must end sooner by more than a little.
constexpr double kWorthSplitting = 0.97;

double typical_rate(std::span<const JointServer> servers) {
  std::vector<double> rates;
  for (const JointServer& server : servers)
    if (server.can_help) rates.push_back(server.rate);
  if (rates.empty()) return 1;
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return std::max(*middle, 1e-9);
}

class LevelSearch {
 public:
  LevelSearch(std::span<const JointServer> servers, JointRepairs repairs, const JointLimits& limits)
      : servers_(servers), repairs_(repairs), limits_(limits), typical_(typical_rate(servers)) {
    for (const JointServer& server : servers) {
      if (server.can_help) total_ += server.rate / typical_;
      busy_ += server.helping;
    }
  }

  /// Returns true if there is nothing to schedule or nobody to help.
  bool empty() const { return repairs_.empty() || total_ == 0; }

  /// Matches all repairs at the lowest level that takes them, in parts where that ends the work clearly sooner.
  /// Nothing if they do not all fit. When no other repairs wait behind these, the level may go beyond the limit that
  /// leaves room for others.
  std::optional<Matching> all() const {
    std::optional<Fitting> whole = all(kChunkParts);
    std::optional<Fitting> split = all(1);
    if (!split) return std::nullopt;
    if (whole && split->level * limits_.split_cost > kWorthSplitting * whole->level)
      return std::move(whole->matching);
    return std::move(split->matching);
  }

  /// Matches as many repairs as fit, and appends their indexes to `accepted`.
  Matching fill(std::vector<size_t>& accepted) const {
    const uint32_t level = full_level();
    const uint32_t half = level / 2;
    Matching matching = at_level(level);
    // Repairs come in their order until servers are half full, then by the room that their holders have. Room only
    // shrinks, so a known figure is an upper limit, and a repair is looked at again only when it comes first.
    // A repair that could not get in by kFewMoves moves never will, and where none gets in without a move, none does.
    std::vector<std::pair<uint32_t, ptrdiff_t>> rooms;
    bool first = false;
    for (size_t i = 0; i < repairs_.size(); ++i) {
      const uint32_t whole = matching.room_of(i, kChunkParts) / kChunkParts;
      first |= whole >= repairs_[i]->needed;
      if (whole + kFewMoves >= repairs_[i]->needed)
        rooms.emplace_back(matching.room_of(i, half), -static_cast<ptrdiff_t>(i));
    }
    if (!first) return matching;
    std::priority_queue best(std::less<>(), std::move(rooms));
    for (size_t misses = 0; !best.empty() && misses < kMaxMisses;) {
      const auto [known, order] = best.top();
      const auto repair = static_cast<size_t>(-order);
      best.pop();
      const uint32_t room = matching.room_of(repair, half);
      if (matching.room_of(repair, kChunkParts) / kChunkParts + std::min(kFewMoves, accepted.size()) <
          repairs_[repair]->needed)
        continue;
      if (room < known) {
        best.emplace(room, order);
      } else if (matching.let_in(repair)) {
        accepted.push_back(repair);
        misses = 0;
      } else {
        ++misses;
      }
    }
    return matching;
  }

 private:
  struct Fitting {
    Matching matching;
    uint32_t level;
  };

  /// Matches all repairs at the lowest level that takes them; no helper gets less than `smallest` parts of a chunk.
  std::optional<Fitting> all(uint32_t smallest) const {
    double wanted = 0;
    for (const JointRepair* repair : repairs_)
      wanted += repair->needed * kChunkParts;
    const uint32_t highest = kChunkParts * (limits_.waiting > repairs_.size() ? limits_.level : limits_.most);
    const double lowest = std::ceil((busy_ + wanted) / total_ / smallest) * smallest;
    if (lowest > highest) return std::nullopt;
    auto level = static_cast<uint32_t>(std::max<double>(lowest, smallest));
    Fitting fitting{at_level(level), level};
    for (size_t i = 0; i < repairs_.size(); ++i) {
      while (!fitting.matching.let_in(i, smallest)) {
        fitting.level += smallest;
        if (fitting.level > highest) return std::nullopt;
        fitting.matching.set_capacities(capacities(fitting.level));
      }
    }
    return fitting;
  }

  std::vector<uint32_t> capacities(uint32_t level) const {
    std::vector<uint32_t> capacities;
    for (const JointServer& server : servers_) {
      const double fair = std::floor(level * server.rate / typical_ + 0.25);
      capacities.push_back(server.can_help ? static_cast<uint32_t>(std::min<double>(fair, most_parts())) : 0);
    }
    return capacities;
  }

  Matching at_level(uint32_t level) const {
    const std::vector<uint32_t> capacity = capacities(level);
    std::vector<HelperRoom> rooms;
    for (size_t i = 0; i < servers_.size(); ++i)
      rooms.push_back({.capacity = capacity[i], .load = servers_[i].helping});
    return {repairs_, std::move(rooms)};
  }

  /// Returns the level that whole repairs of whole chunks fill best.
  uint32_t full_level() const {
    uint32_t best = limits_.level;
    double best_filled = 0;
    for (uint32_t level = limits_.level; level <= std::max(limits_.level, limits_.most * 3 / 4); ++level) {
      const double fit = total_ * level / repairs_.front()->needed;
      const double filled = std::floor(fit) / fit;
      if (filled > best_filled + 1e-3) {
        best = level;
        best_filled = filled;
      }
    }
    return best * kChunkParts;
  }

  uint32_t most_parts() const { return limits_.most * kChunkParts; }

  std::span<const JointServer> servers_;
  JointRepairs repairs_;
  const JointLimits& limits_;
  double typical_;
  double total_ = 0;  // parts that all servers together may help with at a level of one
  double busy_ = 0;   // parts that they already help with
};

}  // namespace

std::vector<JointChoice> schedule_jointly(
    std::span<const JointServer> servers, JointRepairs repairs, const JointLimits& limits,
    const std::function<bool(size_t repair, uint32_t server)>& may_receive) {
  const LevelSearch schedule(servers, repairs, limits);
  if (schedule.empty()) return {};
  std::vector<size_t> accepted;
  if (const std::optional<Matching> all = schedule.all()) {
    accepted.resize(repairs.size());
    std::iota(accepted.begin(), accepted.end(), 0);
    return make_chains(servers, repairs, *all, accepted, may_receive);
  }
  const Matching filled = schedule.fill(accepted);
  return make_chains(servers, repairs, filled, accepted, may_receive);
}

}  // namespace kintsugi::repair_manager
