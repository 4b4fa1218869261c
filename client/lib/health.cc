#include "client/lib/health.h"

#include <algorithm>

namespace kintsugi::client {

void ServerHealth::failed(ServerId server) {
  const TimePoint now = clock_.now();
  if (until_.size() >= kMaxServers)
    std::erase_if(until_, [now](const auto& entry) { return entry.second <= now; });
  if (until_.size() < kMaxServers) until_[server] = now + kAvoidFor;
}

bool ServerHealth::avoid(ServerId server) const {
  const auto found = until_.find(server);
  return found != until_.end() && found->second > clock_.now();
}

std::vector<ServerId> ServerHealth::avoided() const {
  std::vector<ServerId> result;
  for (const auto& [server, until] : until_) {
    if (until > clock_.now()) result.push_back(server);
  }
  return result;
}

size_t FetchTimes::size_class(uint64_t bytes) {
  constexpr uint64_t kSmall = 128 * 1024, kMiddle = 1024 * 1024;
  return bytes <= kSmall ? 0 : bytes <= kMiddle ? 1 : 2;
}

void FetchTimes::record(uint64_t bytes, Duration took) {
  Ring& ring = rings_[size_class(bytes)];
  if (ring.durations.size() < kRemembered) {
    ring.durations.push_back(took);
  } else {
    ring.durations[ring.next] = took;
    ring.next = (ring.next + 1) % kRemembered;
  }
}

Duration FetchTimes::usual_limit(uint64_t bytes, Duration unknown) const {
  const Ring& ring = rings_[size_class(bytes)];
  if (ring.durations.size() < kFewest) return unknown;
  std::vector<Duration> sorted = ring.durations;
  const auto at = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() * 9 / 10);
  std::nth_element(sorted.begin(), at, sorted.end());
  return *at;
}

}  // namespace kintsugi::client
