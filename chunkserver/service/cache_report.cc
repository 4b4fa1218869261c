#include "chunkserver/service/cache_report.h"

#include <algorithm>
#include <cmath>

namespace kintsugi::chunkserver {

CacheReport::CacheReport(ChunkCache& cache, UsageProfile& usage, const runtime::Clock& clock)
    : cache_(cache), usage_(usage), clock_(clock) {
  cache_.on_change = [this](ChunkId id) { touched_.insert(id); };
  usage_.on_change = [this](ChunkId id) { touched_.insert(id); };
}

CacheReport::~CacheReport() {
  cache_.on_change = [](ChunkId) {};
  usage_.on_change = [](ChunkId) {};
}

void CacheReport::restate() {
  restating_ = true;
  told_.clear();
  unsure_.clear();
  touched_.clear();
  cache_.for_each_cached([&](ChunkId id) { touched_.insert(id); });
  for (const auto& [id, heat] : usage_.hottest(usage_.size()))
    touched_.insert(id);
}

double CacheReport::told_heat(const Told& told) const {
  const std::chrono::duration<double> since = clock_.now() - told.when;
  return told.heat * std::exp2(-since / UsageProfile::kHalfLife);
}

bool CacheReport::is_news(const News& state) const {
  if (unsure_.contains(state.id)) return true;
  const auto told = told_.find(state.id);
  if (told == told_.end()) return state.cached || state.heat >= kColdHeat;
  if (told->second.cached != state.cached) return true;
  return state.heat >= kColdHeat && state.heat >= kNewsFactor * told_heat(told->second);
}

void CacheReport::fill(proto::HeartbeatRequest& request) {
  if (unsure_.size() > kMaxUnsure) restate();
  std::vector<News> news;
  for (auto next = touched_.begin(); next != touched_.end();) {
    const News state{*next, cache_.cached(*next), usage_.heat(*next)};
    if (is_news(state)) {
      news.push_back(state);
      ++next;
    } else {
      next = touched_.erase(next);
    }
  }
  const size_t count = std::min(news.size(), kMaxChanges);
  std::partial_sort(
      news.begin(), news.begin() + static_cast<ptrdiff_t>(count), news.end(),
      [](const News& a, const News& b) { return a.heat != b.heat ? a.heat > b.heat : a.id < b.id; });
  for (size_t i = 0; i < count; ++i) {
    proto::CacheChange& change = *request.add_cache_changes();
    change.set_stripe_id(news[i].id.stripe.value);
    change.set_index(news[i].id.index);
    change.set_cached(news[i].cached);
    change.set_heat(static_cast<float>(news[i].heat));
    unsure_.insert(news[i].id);
  }
  request.set_cache_restated(restating_);
}

void CacheReport::delivered(const proto::HeartbeatRequest& request) {
  if (request.cache_restated()) restating_ = false;
  for (const proto::CacheChange& change : request.cache_changes()) {
    const ChunkId id{StripeId(change.stripe_id()), change.index()};
    unsure_.erase(id);
    // The chunk stays in touched_ until the next fill(): a change while the heartbeat was on its way is news.
    if (!change.cached() && change.heat() < kColdHeat) {
      told_.erase(id);
    } else {
      told_[id] = {change.cached(), change.heat(), clock_.now()};
    }
  }
  if (told_.size() > kMaxTold) forget_cold();
}

void CacheReport::forget_cold() {
  std::erase_if(
      told_, [&](const auto& entry) { return !entry.second.cached && told_heat(entry.second) < kColdHeat; });
}

}  // namespace kintsugi::chunkserver
