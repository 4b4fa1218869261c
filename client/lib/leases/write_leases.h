/// The leases of a session: under that of a file, what was written to it may be kept back; under that of a directory,
/// names.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "common/proto/inode.pb.h"

namespace kintsugi::client {

/// A lease is asked for with other calls, granted by their answers, ended here (from then on nothing more is kept
/// back), and given back once what was kept back is durable. Words that overtake each other on their way are put in
/// their order here.
class WriteLeases {
 public:
  bool has(uint64_t inode) const { return leases_.contains(inode); }
  /// Returns true if the lease is being given back.
  bool is_ending(uint64_t inode) const { return ending_.contains(inode); }
  /// Returns true if the metaserver counts the lease as this session's: also while it is being given back, unless it
  /// was recalled before it was granted.
  bool has_or_ends(uint64_t inode) const;

  // ---- how one comes
  /// Returns true if the lease may be asked for: none is on its way back.
  bool may_want(uint64_t inode) const {
    return !giving_back_.contains(inode) && !ending_.contains(inode) && !is_lost(inode);
  }
  /// While calls are under way that may bring a lease, recalls may come before their answers, and give_back() may overtake them.
  class Asking {
   public:
    explicit Asking(WriteLeases& leases) : leases_(leases) { ++leases_.asking_; }
    ~Asking() {
      if (--leases_.asking_ == 0) leases_.ended_early_.clear();
    }
    Asking(const Asking&) = delete;

   private:
    WriteLeases& leases_;
  };
  /// Notes that the metaserver granted the lease. REQUIRES: an Asking from before the call was sent.
  void granted(uint64_t inode);
  /// Notes that this session made the inode, with a lease, and that the metaserver will hear of both (LeasedNames);
  /// from known() on it has.
  void made(uint64_t inode);
  void known(uint64_t inode) { unknown_.erase(inode); }
  bool is_unknown(uint64_t inode) const { return unknown_.contains(inode); }
  /// Takes over a lease of the process before this one, which left something that was done under it.
  void took_over(uint64_t inode) { leases_.insert(inode); }

  // ---- how one goes
  /// Begins to end the lease: from here on nothing more is kept back; end_is_over() follows once what was is durable.
  /// Returns the number of this end.
  uint64_t end(uint64_t inode);
  /// Gives the lease back, as everything that was kept back before that end() is durable, unless it has gone since
  /// then: it may have been lost meanwhile, and granted anew.
  void end_is_over(uint64_t inode, uint64_t number);
  /// Gives the lease back: the metaserver hears of it with the session's next word.
  void give_back(uint64_t inode);
  /// Notes that the metaserver says that these leases are lost. Returns those of which that is news: give_back()
  /// follows once nothing that was sent under them can arrive any more, since the metaserver refuses that as long as it
  /// is not told.
  std::vector<uint64_t> lost(const google::protobuf::RepeatedField<uint64_t>& inodes);
  /// Notes that the lease of one inode is lost. Returns true if that is news.
  bool lose(uint64_t inode);
  /// Returns true if the lease was lost, and is still to be given back.
  bool is_lost(uint64_t inode) const { return lost_.contains(inode); }

  // ---- what is told (Session)
  bool has_news() const { return !news_given_back_.empty(); }
  /// Returns some of what is to be told as given back: what was told without an answer first.
  const std::set<uint64_t>& some_given_back(size_t most);
  const std::set<uint64_t>& giving_back() const { return giving_back_; }
  /// Notes that the metaserver has heard of giving_back().
  void told_given_back() { giving_back_.clear(); }
  /// Returns all leases that the metaserver should know of.
  std::deque<uint64_t> all() const;
  /// Returns true if the metaserver should still know of the lease: it may have been given back since all().
  bool is_to_be_told(uint64_t inode) const {
    return (leases_.contains(inode) || ending_.contains(inode) || is_lost(inode)) &&
           !unknown_.contains(inode);
  }

 private:
  std::set<uint64_t> leases_;
  struct Ending {
    bool had;         ///< whether the metaserver knew that this session had it
    uint64_t number;  ///< see end()
  };
  std::map<uint64_t, Ending> ending_;  ///< leases that are given back soon
  uint64_t last_end_ = 0;
  std::set<uint64_t> lost_;     ///< leases that were lost and are not given back yet
  std::set<uint64_t> unknown_;  ///< leases of inodes that the metaserver has not heard of
  size_t asking_ = 0;
  std::set<uint64_t> ended_early_;      ///< leases that were recalled or given back while `asking_`
  std::set<uint64_t> news_given_back_;  ///< leases whose return is not told yet
  std::set<uint64_t> giving_back_;      ///< leases whose return is being told, or was told without an answer
};

}  // namespace kintsugi::client
