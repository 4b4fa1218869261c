#include "repair_manager/what_if/lost_stripes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "repair_manager/what_if/random_stripes.h"

namespace kintsugi::what_if {
namespace {

using repair_manager::ChunkView;
using repair_manager::StripeView;

// After so many stripes that lose more chunks than are left to draw, these few are left out.
constexpr int kMostMisses = 100;

}  // namespace

LostStripes::LostStripes(const Cluster& cluster, const std::vector<bool>& lost, uint64_t seed)
    : cluster_(cluster), lost_(lost), random_(seed), policy_(cluster.policy) {
  known() ? count_known() : count_drawn();
}

size_t LostStripes::lacking(const StripeView& stripe) {
  return static_cast<size_t>(std::ranges::count_if(
      stripe.chunks, [](const ChunkView& chunk) { return !chunk.available && chunk.length > 0; }));
}

size_t LostStripes::holders() const {
  return static_cast<size_t>(std::ranges::count_if(
      cluster_.servers, [](const Server& server) { return server.alive && server.chunks > 0; }));
}

std::vector<PlacementBound::Holders> LostStripes::left_of(const std::vector<StripeView>& stripes) {
  std::vector<PlacementBound::Holders> holders;
  for (const StripeView& stripe : stripes) {
    PlacementBound::Holders& mine = holders.emplace_back();
    for (const ChunkView& chunk : stripe.chunks)
      if (chunk.available && chunk.server) mine.push_back(static_cast<uint32_t>(chunk.server.value - 1));
  }
  return holders;
}

std::vector<StripeView> LostStripes::take(double chunks) {
  if (!known()) return draw(chunks);
  // Every so many of them, so that none of the files is left out.
  const double share = std::min(1.0, chunks / std::max(1.0, chunks_));
  std::vector<StripeView> stripes;
  for (size_t i = 0; i < known_.size(); ++i) {
    const auto place = static_cast<double>(i);
    if (std::floor((place + 1) * share) <= std::floor(place * share) && share < 1) continue;
    stripes.push_back(known_[i]);
    stripes.back().id = StripeId{stripes.size()};
  }
  return stripes;
}

// ---- stripes that are known

void LostStripes::count_known() {
  for (uint32_t i = 0; i < cluster_.servers.size(); ++i)
    if (cluster_.servers[i].id) positions_.emplace(cluster_.servers[i].id, i);
  std::map<std::string, size_t> of_policy;
  one_chunk_each_ = true;
  for (const StripeView& told : *cluster_.stripes) {
    StripeView stripe = after_the_loss(told);
    const size_t lacks = lacking(stripe);
    if (lacks == 0) continue;
    chunks_ += static_cast<double>(lacks);
    for (const ChunkView& chunk : stripe.chunks)
      if (!chunk.available) bytes_ += static_cast<double>(chunk.length);
    one_chunk_each_ = one_chunk_each_ && lacks == 1;
    of_policy[stripe.policy] += lacks;
    known_.push_back(std::move(stripe));
  }
  of_one_policy_ = of_policy.size() <= 1;
  const auto most = std::ranges::max_element(of_policy, {}, [](const auto& entry) { return entry.second; });
  if (most != of_policy.end()) policy_ = erasure::Policy::parse(most->first).value();
}

StripeView LostStripes::after_the_loss(StripeView stripe) const {
  for (ChunkView& chunk : stripe.chunks) {
    const auto place = positions_.find(chunk.server);
    // A chunk that no server has, or one that is forgotten, is missing already.
    const bool known = place != positions_.end();
    chunk.server = known ? ServerId{place->second + 1} : ServerId{};
    if (chunk.length > 0) chunk.available = chunk.available && known && !lost_[place->second];
  }
  return stripe;
}

// ---- stripes that are drawn

void LostStripes::count_drawn() {
  for (size_t i = 0; i < lost_.size(); ++i)
    if (lost_[i] && cluster_.servers[i].alive) chunks_ += static_cast<double>(cluster_.servers[i].chunks);
  bytes_ = chunks_ * cluster_.chunk_bytes;
  one_chunk_each_ = std::ranges::count(lost_, true) == 1 || in_one_rack();
}

/// There are more racks than a stripe has chunks, and one of them has all that is lost.
bool LostStripes::in_one_rack() const {
  std::map<std::string_view, bool> racks;
  for (size_t i = 0; i < lost_.size(); ++i)
    if (cluster_.servers[i].alive && cluster_.servers[i].chunks > 0)
      racks[cluster_.servers[i].rack] |= lost_[i];
  const auto hit = std::ranges::count_if(racks, [](const auto& rack) { return rack.second; });
  return hit == 1 && racks.size() >= policy_.chunks();
}

StripeView LostStripes::drawn_stripe(const std::vector<uint32_t>& places) const {
  const auto bytes = static_cast<uint64_t>(cluster_.chunk_bytes);
  StripeView stripe{.policy = cluster_.policy.name(), .length = bytes * cluster_.policy.k};
  for (uint32_t i = 0; i < places.size(); ++i)
    stripe.chunks.push_back(
        {.index = i, .server = ServerId{places[i] + 1}, .length = bytes, .available = !lost_[places[i]]});
  return stripe;
}

std::vector<StripeView> LostStripes::draw(double chunks) {
  std::map<std::string_view, uint32_t> racks;
  std::vector<RandomStripes::Place> places;
  std::vector<bool> lost;
  for (size_t i = 0; i < lost_.size(); ++i) {
    const Server& server = cluster_.servers[i];
    const uint32_t rack = racks.emplace(server.rack, static_cast<uint32_t>(racks.size())).first->second;
    places.push_back({.rack = rack, .weight = server.alive ? static_cast<double>(server.chunks) : 0.0});
    lost.push_back(lost_[i] && places.back().weight > 0);
  }
  RandomStripes random(places, policy_.chunks(), random_);
  std::vector<StripeView> stripes;
  int misses = 0;
  for (double drawn = 0; drawn < chunks - 0.5 && misses < kMostMisses;) {
    StripeView stripe = drawn_stripe(random.that_loses(lost));
    const auto losses = static_cast<double>(lacking(stripe));
    if (drawn + losses > chunks + 0.5) {
      ++misses;
      continue;
    }
    drawn += losses;
    stripe.id = StripeId{stripes.size() + 1};
    stripes.push_back(std::move(stripe));
  }
  return stripes;
}

}  // namespace kintsugi::what_if
