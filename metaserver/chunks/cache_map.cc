#include "metaserver/chunks/cache_map.h"

#include <cmath>

namespace kintsugi::metaserver {

void CacheMap::apply(ServerId server, const proto::HeartbeatRequest& heartbeat) {
  if (heartbeat.cache_restated()) forget(server);
  if (heartbeat.cache_changes().empty()) return;
  Server& known = servers_[server];
  known.died.reset();
  for (const proto::CacheChange& change : heartbeat.cache_changes())
    set(known, {StripeId{change.stripe_id()}, change.index()}, change.cached(), change.heat());
}

void CacheMap::set(Server& server, ChunkId chunk, bool cached, float heat) {
  // The number comes from the wire: it may be anything.
  if (!(heat >= 0) || !std::isfinite(heat)) heat = 0;
  auto found = server.chunks.find(chunk);
  if (!cached && heat < kColdHeat) {
    if (found != server.chunks.end()) erase(server, found);
    return;
  }
  if (found == server.chunks.end()) {
    sweep(server);
    if (server.chunks.size() >= kMaxChunksOfServer || size_ >= kMaxChunks) return;
    found = server.chunks.emplace(chunk, Usage{}).first;
    ++size_;
  }
  server.cached += cached ? 1 : 0;
  server.cached -= found->second.cached ? 1 : 0;
  found->second = {cached, heat, clock_.now()};
}

void CacheMap::erase(Server& server, std::map<ChunkId, Usage>::iterator at) {
  server.cached -= at->second.cached ? 1 : 0;
  server.chunks.erase(at);
  --size_;
}

void CacheMap::sweep(Server& server) {
  auto at = server.chunks.upper_bound(server.swept);
  for (size_t i = 0; i < kSweepStep && at != server.chunks.end(); ++i) {
    const auto next = std::next(at);
    server.swept = at->first;
    if (!at->second.cached && heat_of(server, at->second) < kColdHeat) erase(server, at);
    at = next;
  }
  if (at == server.chunks.end()) server.swept = {};
}

void CacheMap::server_died(ServerId server) {
  const auto found = servers_.find(server);
  if (found == servers_.end() || found->second.died) return;
  Server& dead = found->second;
  for (auto at = dead.chunks.begin(); at != dead.chunks.end();) {
    const auto next = std::next(at);
    at->second.cached = false;
    if (heat_of(dead, at->second) < kColdHeat) {
      dead.chunks.erase(at);
      --size_;
    }
    at = next;
  }
  dead.cached = 0;
  dead.died = clock_.now();
}

void CacheMap::forget(ServerId server) {
  const auto found = servers_.find(server);
  if (found == servers_.end()) return;
  size_ -= found->second.chunks.size();
  servers_.erase(found);
}

double CacheMap::heat_of(const Server& server, const Usage& usage) const {
  const std::chrono::duration<double> since = server.died.value_or(clock_.now()) - usage.when;
  return usage.heat * std::exp2(-since / kHalfLife);
}

bool CacheMap::cached(ServerId server, ChunkId chunk) const {
  const auto known = servers_.find(server);
  if (known == servers_.end()) return false;
  const auto found = known->second.chunks.find(chunk);
  return found != known->second.chunks.end() && found->second.cached;
}

double CacheMap::heat(ServerId server, ChunkId chunk) const {
  const auto known = servers_.find(server);
  if (known == servers_.end()) return 0;
  const auto found = known->second.chunks.find(chunk);
  return found == known->second.chunks.end() ? 0 : heat_of(known->second, found->second);
}

size_t CacheMap::cached_chunks(ServerId server) const {
  const auto known = servers_.find(server);
  return known == servers_.end() ? 0 : known->second.cached;
}

}  // namespace kintsugi::metaserver
