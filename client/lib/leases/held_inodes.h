/// The inodes that are open in this process, and what the metaserver has not heard of that.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>

#include "common/proto/inode.pb.h"

namespace kintsugi::client {

/// The metaserver keeps what is held, also without a name.
class HeldInodes {
 public:
  /// Notes that the inode is open from now on, once more. The metaserver hears of it with the session's next word.
  void hold(uint64_t inode);
  /// Notes that the inode is open, once more, of which the metaserver knows since it answered (`hold_for`).
  void held(uint64_t inode);
  /// Returns how often everything began to be told. To be asked before a call that has an inode held (held_by_call()).
  uint64_t tellings() const { return tellings_; }
  /// Notes that a call has had the inode held. Pages that were told while it was under way did not name it, so the
  /// metaserver may have let it go again: it is told once more.
  void held_by_call(uint64_t inode, uint64_t tellings_before) {
    if (tellings_ != tellings_before) news_held_.insert(inode);
  }
  /// Undoes one hold().
  void release(uint64_t inode);
  /// Tells of a release once more: the metaserver may have come to hold the inode after it was told.
  void release_again(uint64_t inode) { news_released_.insert(inode); }
  bool is_held(uint64_t inode) const { return holds_.contains(inode); }

  // ---- what is told (Session)
  bool has_news() const { return !news_held_.empty() || !news_released_.empty(); }
  bool has_news_of_holds() const { return !news_held_.empty(); }
  void add_news(proto::KeepSessionRequest& request, size_t most);
  /// Returns all that are held now, which are told in pages from here to told_all(): there is no other news of them.
  std::deque<uint64_t> begin_to_tell_all();
  void told_all() { telling_all_ = false; }

 private:
  std::map<uint64_t, uint64_t> holds_;            ///< how often each inode is held
  std::set<uint64_t> news_held_, news_released_;  ///< inodes of which that is not told yet
  bool telling_all_ = false;
  uint64_t tellings_ = 0;
};

}  // namespace kintsugi::client
