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

void MoveBackoff::forget_old(TimePoint now) {
  std::erase_if(pairs_, [now](const auto& pair) { return now >= pair.second.until + kMost; });
}

}  // namespace kintsugi::metaserver
