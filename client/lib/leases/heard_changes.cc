#include "client/lib/leases/heard_changes.h"

#include <algorithm>

#include "common/proto/promises.h"

namespace kintsugi::client {
namespace {

constexpr size_t kMaxShared = 20'000;

}  // namespace

void HeardChanges::told(const proto::AwaitRecallsResponse& response, TimePoint now) {
  told_at_ = now;
  if (shared_until_.size() >= kMaxShared)
    std::erase_if(shared_until_, [now](const auto& one) { return one.second <= now; });
  // The metaserver counts from when it hears that this was heard: a little later.
  for (const proto::ChangedInode& inode : response.changed())
    if (!inode.names().empty()) shared_until_[inode.inode()] = now + 2 * kShared;
  told_ = response.number();
  unheard_.push_back({response.number(), now, Changes(response.changed().begin(), response.changed().end())});
  // A kernel that was not told of a change for so long believes nothing any more of what was before it.
  while (now - unheard_.front().told > kBelieved)
    unheard_.pop_front();
}

std::optional<HeardChanges::Unheard> HeardChanges::take_unheard() {
  if (unheard_.empty()) return std::nullopt;
  Unheard next = std::move(unheard_.front());
  unheard_.pop_front();
  return next;
}

Duration HeardChanges::believable(TimePoint asked, Duration usually, TimePoint now) const {
  // The answer may have been on its way while somebody changed what it says.
  return asked <= told_at_ ? Duration{} : std::max(Duration{}, usually - (now - asked));
}

bool HeardChanges::is_shared(uint64_t directory, TimePoint now) const {
  const auto shared = shared_until_.find(directory);
  return shared != shared_until_.end() && now < shared->second;
}

}  // namespace kintsugi::client
