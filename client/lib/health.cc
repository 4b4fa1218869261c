#include "client/lib/health.h"

#include <algorithm>

namespace kintsugi::client {

void ServerHealth::avoid_for(ServerId server, Duration duration) {
  const TimePoint now = clock_.now();
  if (until_.size() >= kMaxServers)
    std::erase_if(until_, [now](const auto& entry) { return entry.second <= now; });
  if (until_.size() >= kMaxServers && !until_.contains(server)) return;
  TimePoint& until = until_[server];
  until = std::max(until, now + duration);
}

void ServerHealth::lagged(ServerId server) {
  if (lags_.size() >= kMaxServers && !lags_.contains(server)) return;
  Lags& lags = lags_[server];
  if (++lags.in_a_row < kLagsInARow || avoid(server)) return;
  const auto lagging = std::ranges::count_if(lags_, [this](const auto& entry) {
    return entry.second.in_a_row >= kLagsInARow && avoid(entry.first);
  });
  if (static_cast<size_t>(lagging) >= std::max<size_t>(1, lags_.size() / kLaggingOneOf)) return;
  avoid_for(server, kAvoidFor * (1 << lags.doublings));
  lags.doublings = std::min(lags.doublings + 1, kMostDoublings);
}

void ServerHealth::answered(ServerId server) {
  if (lags_.size() < kMaxServers || lags_.contains(server)) lags_[server] = {};
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

void ServerHealth::told_slow(const google::protobuf::RepeatedField<uint64_t>& servers) {
  slow_.clear();
  for (const uint64_t id : servers) {
    if (slow_.size() >= kMaxServers) break;
    slow_.insert(ServerId{id});
  }
  slow_until_ = clock_.now() + kSlowFor;
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
  if (ring.durations.size() == kRemembered && ring.next % kFewest != 0) return;
  std::vector<Duration> sorted = ring.durations;
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  ring.usual = *middle;
}

std::optional<Duration> FetchTimes::usual(uint64_t bytes) const {
  const Ring& ring = rings_[size_class(bytes)];
  if (ring.durations.size() < kFewest) return {};
  return ring.usual;
}

}  // namespace kintsugi::client
