#include "client/lib/leases/write_leases.h"

namespace kintsugi::client {

bool WriteLeases::has_or_ends(uint64_t inode) const {
  const auto ending = ending_.find(inode);
  return leases_.contains(inode) || (ending != ending_.end() && ending->second.had);
}

void WriteLeases::granted(uint64_t inode) {
  if (ended_early_.contains(inode) || is_lost(inode)) return;
  leases_.insert(inode);
  news_given_back_.erase(inode);
}

void WriteLeases::made(uint64_t inode) {
  leases_.insert(inode);
  unknown_.insert(inode);
}

uint64_t WriteLeases::end(uint64_t inode) {
  const bool had = leases_.erase(inode) > 0;
  if (!had && asking_ > 0) ended_early_.insert(inode);
  const auto [ending, is_new] = ending_.try_emplace(inode, Ending{had, last_end_ + 1});
  if (is_new) ++last_end_;
  return ending->second.number;
}

void WriteLeases::end_is_over(uint64_t inode, uint64_t number) {
  const auto ending = ending_.find(inode);
  if (ending != ending_.end() && ending->second.number == number) give_back(inode);
}

void WriteLeases::give_back(uint64_t inode) {
  leases_.erase(inode);
  ending_.erase(inode);
  lost_.erase(inode);
  news_given_back_.insert(inode);
}

std::vector<uint64_t> WriteLeases::lost(const google::protobuf::RepeatedField<uint64_t>& inodes) {
  std::vector<uint64_t> news;
  for (const uint64_t inode : inodes)
    if (lose(inode)) news.push_back(inode);
  return news;
}

bool WriteLeases::lose(uint64_t inode) {
  // The word that it was given up may be on its way.
  if (news_given_back_.contains(inode) || giving_back_.contains(inode)) return false;
  if (!lost_.insert(inode).second) return false;
  leases_.erase(inode);
  return true;
}

const std::set<uint64_t>& WriteLeases::some_given_back(size_t most) {
  while (!news_given_back_.empty() && giving_back_.size() < most)
    giving_back_.insert(news_given_back_.extract(news_given_back_.begin()));
  // The lease that a call brings which is under way now may be the one that this gives back.
  if (asking_ > 0) ended_early_.insert(giving_back_.begin(), giving_back_.end());
  return giving_back_;
}

std::deque<uint64_t> WriteLeases::all() const {
  std::deque<uint64_t> all(leases_.begin(), leases_.end());
  for (const auto& [inode, ending] : ending_)
    all.push_back(inode);
  // A metaserver that starts anew has to refuse what was sent under them, too.
  for (const uint64_t inode : lost_)
    if (!ending_.contains(inode)) all.push_back(inode);
  return all;
}

}  // namespace kintsugi::client
