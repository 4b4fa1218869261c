#include "metaserver/repair/move_backoff.h"

#include <algorithm>

namespace kintsugi::metaserver {

Duration MoveBackoff::failed(ServerId from, ServerId to, TimePoint now) {
  const auto [pair, is_new] = pairs_.try_emplace({to, from}, Pair{.length = kFirst, .until = now});
  if (now < pair->second.until) return {};
  if (!is_new) pair->second.length = std::min<Duration>(2 * pair->second.length, kMost);
  pair->second.until = now + pair->second.length;
  return pair->second.length;
}

bool MoveBackoff::left_alone(ServerId from, ServerId to, TimePoint now) const {
  const auto pair = pairs_.find({to, from});
  return pair != pairs_.end() && now < pair->second.until;
}

bool MoveBackoff::target_left_alone(ServerId to, TimePoint now) const {
  size_t sources = 0;
  for (auto pair = pairs_.lower_bound({to, ServerId{}}); pair != pairs_.end() && pair->first.first == to;
       ++pair)
    sources += now < pair->second.until ? 1 : 0;
  return sources >= kSources;
}

std::optional<MoveBackoff::Held> MoveBackoff::held_back(ServerId to, TimePoint now) const {
  Held held;
  std::vector<TimePoint> ends;
  for (auto pair = pairs_.lower_bound({to, ServerId{}}); pair != pairs_.end() && pair->first.first == to;
       ++pair) {
    if (now >= pair->second.until) continue;
    held.from.push_back(pair->first.second);
    ends.push_back(pair->second.until);
  }
  if (ends.empty()) return {};
  std::ranges::sort(ends, std::greater{});
  held.until = ends.front();
  if (ends.size() < kSources) return held;
  // All sources leave it alone as long as kSources of them have failed.
  held.from.clear();
  held.until = ends[kSources - 1];
  return held;
}

void MoveBackoff::forget_old(TimePoint now) {
  std::erase_if(pairs_, [now](const auto& pair) { return now >= pair.second.until + kMost; });
}

}  // namespace kintsugi::metaserver
