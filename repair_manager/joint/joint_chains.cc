#include "repair_manager/joint/joint_chains.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "repair_manager/trees/slice_shares.h"

namespace kintsugi::repair_manager {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;
constexpr size_t kMaxPasses = 8;

/// Counts the parts that every server receives, and chooses who receives next. A server's pressure is its parts over
/// its link's rate: the server with the greatest one ends last.
class Downloads {
 public:
  Downloads(std::span<const JointServer> servers, const Matching& matching) : servers_(servers) {
    for (uint32_t i = 0; i < servers.size(); ++i)
      parts_.push_back(servers[i].receiving + matching.load(i) - servers[i].helping);
  }
  double pressure(uint32_t server) const { return parts_[server] / std::max(servers_[server].rate, 1e-9); }
  void is_leaf(uint32_t server, uint32_t parts) { parts_[server] -= parts; }
  /// Makes `to` the leaf in place of `from`, unless that would load the links less evenly. By many such changes a
  /// surplus wanders from server to server until it meets one that receives too little.
  bool change_leaf(uint32_t from, uint32_t to, uint32_t parts) {
    const double before = pressure(to);
    parts_[from] += parts;
    if (pressure(from) <= before) {
      parts_[to] -= parts;
      return true;
    }
    parts_[from] -= parts;
    return false;
  }

  /// Takes the server with the least pressure among those that `allowed` permits, or kNobody. REQUIRES: no leaf changes
  /// between calls, since the order is built once.
  template <class Allowed>
  uint32_t take_destination(Allowed allowed) {
    if (order_.empty())
      for (uint32_t i = 0; i < servers_.size(); ++i)
        if (servers_[i].can_receive) order_.emplace(pressure(i), i);
    for (auto at = order_.begin(); at != order_.end(); ++at) {
      const uint32_t server = at->second;
      if (!allowed(server)) continue;
      order_.erase(at);
      parts_[server] += kChunkParts;
      order_.emplace(pressure(server), server);
      return server;
    }
    return kNobody;
  }

 private:
  std::span<const JointServer> servers_;
  std::vector<uint32_t> parts_;
  std::set<std::pair<double, uint32_t>> order_;
};

/// Makes a chain for each set of helpers. The leaf, which receives nothing, is the server under the most pressure; the
/// others keep the order of the candidates.
std::vector<JointChain> chains_of(const JointRepair& repair, std::span<const uint32_t> parts,
                                  Downloads& downloads) {
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t c) { return parts[c]; });
  std::vector<JointChain> chains;
  for (const SliceShares::Group& group : lay_out_shares(order, parts, kChunkParts)) {
    JointChain& chain = chains.emplace_back();
    chain.parts = group.slice_mask;
    for (uint32_t c = 0; c < parts.size(); ++c)
      if ((group.helpers >> c & 1) != 0) chain.helpers.push_back(c);
    const auto leaf = std::ranges::max_element(
        chain.helpers, {}, [&](uint32_t c) { return downloads.pressure(repair.candidates[c]); });
    downloads.is_leaf(repair.candidates[*leaf], static_cast<uint32_t>(std::popcount(chain.parts)));
    std::iter_swap(leaf, chain.helpers.end() - 1);
  }
  return chains;
}

/// Chooses leaves again, since they were chosen before destinations were known. Returns true if one changed.
bool change_leaves(JointRepairs repairs, std::vector<JointChoice>& choices, Downloads& downloads) {
  bool changed = false;
  for (JointChoice& choice : choices) {
    const std::vector<uint32_t>& candidates = repairs[choice.repair]->candidates;
    for (JointChain& chain : choice.chains) {
      const auto most = std::ranges::max_element(
          chain.helpers, {}, [&](uint32_t c) { return downloads.pressure(candidates[c]); });
      if (most == chain.helpers.end() - 1) continue;
      const auto parts = static_cast<uint32_t>(std::popcount(chain.parts));
      if (!downloads.change_leaf(candidates[chain.helpers.back()], candidates[*most], parts)) continue;
      std::iter_swap(most, chain.helpers.end() - 1);
      changed = true;
    }
  }
  return changed;
}

}  // namespace

std::vector<JointChoice> make_chains(std::span<const JointServer> servers, JointRepairs repairs,
                                     const Matching& matching, std::span<const size_t> accepted,
                                     const std::function<bool(size_t, uint32_t)>& may_receive) {
  Downloads downloads(servers, matching);
  std::vector<JointChoice> choices;  // all leaves come first
  for (size_t repair : accepted)
    choices.push_back(
        {.repair = repair, .chains = chains_of(*repairs[repair], matching.parts(repair), downloads)});
  std::vector<JointChoice> placed;
  for (JointChoice& choice : choices) {
    choice.destination =
        downloads.take_destination([&](uint32_t server) { return may_receive(choice.repair, server); });
    if (choice.destination != kNobody) placed.push_back(std::move(choice));
  }
  for (size_t pass = 0; pass < kMaxPasses && change_leaves(repairs, placed, downloads); ++pass) {
  }
  return placed;
}

}  // namespace kintsugi::repair_manager
