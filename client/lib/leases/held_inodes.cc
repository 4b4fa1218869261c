#include "client/lib/leases/held_inodes.h"

#include "common/base/assert.h"

namespace kintsugi::client {

void HeldInodes::hold(uint64_t inode) {
  if (holds_[inode]++ > 0) return;
  // The page that would have named it may have left it out, as it was released then.
  if (news_released_.erase(inode) == 0 || telling_all_) news_held_.insert(inode);
}

void HeldInodes::held(uint64_t inode) {
  if (holds_[inode]++ > 0) return;
  news_released_.erase(inode);
  // The pages that are under way do not name it.
  if (telling_all_) news_held_.insert(inode);
}

void HeldInodes::release(uint64_t inode) {
  const auto found = holds_.find(inode);
  KINTSUGI_ASSERT(found != holds_.end());
  if (--found->second > 0) return;
  holds_.erase(found);
  // One that was never told may be held all the same, by a call with `hold_for`: a release too many does no harm.
  news_held_.erase(inode);
  news_released_.insert(inode);
}

void HeldInodes::add_news(proto::KeepSessionRequest& request, size_t most) {
  const auto some = [most](std::set<uint64_t>& from, google::protobuf::RepeatedField<uint64_t>& to) {
    while (!from.empty() && static_cast<size_t>(to.size()) < most)
      to.Add(from.extract(from.begin()).value());
  };
  some(news_held_, *request.mutable_hold());
  some(news_released_, *request.mutable_release());
}

std::deque<uint64_t> HeldInodes::begin_to_tell_all() {
  std::deque<uint64_t> all;
  for (const auto& [inode, times] : holds_)
    all.push_back(inode);
  news_held_.clear();
  news_released_.clear();
  telling_all_ = true;
  ++tellings_;
  return all;
}

}  // namespace kintsugi::client
