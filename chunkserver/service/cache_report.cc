#include "chunkserver/service/cache_report.h"

#include <algorithm>
#include <cmath>

namespace kintsugi::chunkserver {

CacheReport::CacheReport(ChunkCache& cache, UsageProfile& usage, const runtime::Clock& clock)
    : cache_(cache), usage_(usage), clock_(clock) {
  cache_.on_change = [this](ChunkId id) { candidates_.insert(id); };
  usage_.on_change = [this](ChunkId id) { candidates_.insert(id); };
}

CacheReport::~CacheReport() {
  cache_.on_change = [](ChunkId) {};
  usage_.on_change = [](ChunkId) {};
}

void CacheReport::restate() {
  restating_ = true;
  reported_.clear();
  unconfirmed_.clear();
  candidates_.clear();
  cache_.for_each_cached([&](ChunkId id) { candidates_.insert(id); });
  for (const auto& [id, heat] : usage_.hottest(usage_.size()))
    candidates_.insert(id);
}

double CacheReport::reported_heat(const Reported& reported) const {
  const std::chrono::duration<double> since = clock_.now() - reported.when;
  return reported.heat * std::exp2(-since / UsageProfile::kHalfLife);
}

bool CacheReport::has_changed(const Change& state) const {
  if (unconfirmed_.contains(state.id)) return true;
  const auto reported = reported_.find(state.id);
  if (reported == reported_.end()) return state.cached || state.heat >= kColdHeat;
  if (reported->second.cached != state.cached) return true;
  return state.heat >= kColdHeat && state.heat >= kChangeFactor * reported_heat(reported->second);
}

void CacheReport::fill(proto::HeartbeatRequest& request) {
  if (unconfirmed_.size() > kMaxUnconfirmed) restate();
  std::vector<Change> changes;
  for (auto next = candidates_.begin(); next != candidates_.end();) {
    const Change state{*next, cache_.cached(*next), usage_.heat(*next)};
    if (has_changed(state)) {
      changes.push_back(state);
      ++next;
    } else {
      next = candidates_.erase(next);
    }
  }
  const size_t count = std::min(changes.size(), kMaxChanges);
  std::partial_sort(
      changes.begin(), changes.begin() + static_cast<ptrdiff_t>(count), changes.end(),
      [](const Change& a, const Change& b) { return a.heat != b.heat ? a.heat > b.heat : a.id < b.id; });
  for (size_t i = 0; i < count; ++i) {
    proto::CacheChange& change = *request.add_cache_changes();
    change.set_stripe_id(changes[i].id.stripe.value);
    change.set_index(changes[i].id.index);
    change.set_cached(changes[i].cached);
    change.set_heat(static_cast<float>(changes[i].heat));
    unconfirmed_.insert(changes[i].id);
  }
  request.set_cache_restated(restating_);
}

void CacheReport::delivered(const proto::HeartbeatRequest& request) {
  if (request.cache_restated()) restating_ = false;
  for (const proto::CacheChange& change : request.cache_changes()) {
    const ChunkId id{StripeId(change.stripe_id()), change.index()};
    unconfirmed_.erase(id);
    // The chunk stays in candidates_ until the next fill(): a change while the heartbeat was on its way must be
    // reported, too.
    if (!change.cached() && change.heat() < kColdHeat) {
      reported_.erase(id);
    } else {
      reported_[id] = {change.cached(), change.heat(), clock_.now()};
    }
  }
  if (reported_.size() > kMaxReported) forget_cold();
}

void CacheReport::forget_cold() {
  std::erase_if(reported_, [&](const auto& entry) {
    return !entry.second.cached && reported_heat(entry.second) < kColdHeat;
  });
}

}  // namespace kintsugi::chunkserver
