#include "metaserver/sessions/lock_waits.h"

#include <algorithm>
#include <set>

namespace kintsugi::metaserver {

bool LockWaits::may_wait(const proto::FileLock& wanted, const std::vector<proto::FileLock>& in_the_way) {
  const TimePoint now = clock_.now();
  const Owner me{wanted.session(), wanted.owner()};
  Wait wait{.asked = now};
  for (const proto::FileLock& lock : in_the_way)
    wait.for_whom.emplace_back(lock.session(), lock.owner());
  std::set<Owner> seen;
  std::vector<Owner> next = wait.for_whom;
  while (!next.empty() && seen.size() < kMaxSteps) {
    const Owner owner = next.back();
    next.pop_back();
    if (owner == me) {
      waits_.erase(me);
      return false;
    }
    if (!seen.insert(owner).second) continue;
    const auto other = waits_.find(owner);
    if (other == waits_.end() || now - other->second.asked > kForgotten) continue;
    next.insert(next.end(), other->second.for_whom.begin(), other->second.for_whom.end());
  }
  if (waits_.size() >= kMaxWaiting)
    std::erase_if(waits_, [&](const auto& one) { return now - one.second.asked > kForgotten; });
  if (waits_.size() < kMaxWaiting || waits_.contains(me)) waits_[me] = std::move(wait);
  return true;
}

void LockWaits::ended(const proto::FileLock& wanted) {
  waits_.erase({wanted.session(), wanted.owner()});
}

}  // namespace kintsugi::metaserver
