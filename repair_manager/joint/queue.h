/// The queue of chunks that wait for repair or for a move, most endangered first.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "repair_manager/joint/queue_entry.h"

namespace kintsugi::repair_manager {

/// Ordered by remaining redundancy (fewest spare first), then by hotness, then by age; moves come last. A
/// chunk is in it at most once, in one of three places: ready; delayed (its server may return, or a failed
/// attempt backs off); blocked (cannot be repaired now).
class RepairQueue {
 public:
  static constexpr size_t kMaxEntries = 8 << 20;  ///< entries at most; they take about 2 GiB

  /// Blocked entries are retried after this time at the latest; later when there are many, by kRetryCost for each.
  static constexpr Duration kBlockedRetry = std::chrono::seconds(10);
  static constexpr Duration kRetryCost = std::chrono::milliseconds(1);

  /// One call changes the places of so many entries at most, and advance() does the rest from call to call: a server
  /// may have had millions of chunks, and whoever calls serves others, too.
  static constexpr size_t kMovedAtOnce = 1000;

  /// Takes the entry in as ready or delayed, by its `due`. A chunk that is in already keeps its age and
  /// attempts, gets the new spare and the earlier due time. `spare` becomes that of all entries of the
  /// stripe, and urgent ones become ready at once unless they back off. A chunk that is to be moved and got
  /// lost becomes a repair; a lost one is not moved. False when full.
  bool add(QueueEntry entry, TimePoint now);

  /// Makes entries ready that are due, and all blocked ones when it is time to retry them. Returns when the next one
  /// will be ready (TimePoint::max() = none; not after `now`: there is more to do at once).
  TimePoint advance(TimePoint now);

  /// Ready entries in order; `visit` returns false to stop. It must not change the queue.
  template <class Visit>
  void for_each_ready(Visit visit) const {
    if (keeping_) return;
    for (const auto& [key, entry] : ready_)
      if (!visit(*entry)) break;
  }

  /// The entries of the stripe's lost chunks that are ready. They stay where they are until the queue changes.
  std::vector<const QueueEntry*> ready_of(StripeId stripe) const;

  std::optional<QueueEntry> take(ChunkId chunk);
  /// Somebody read the lost chunk: it becomes more urgent.
  void heat_up(ChunkId chunk);
  /// Blocks a ready entry that cannot be repaired now, until unblock_all() or until advance() retries it. True when
  /// that is the first time.
  enum class Lacking { kHelpers, kDestination };
  bool block(ChunkId chunk, Lacking what, TimePoint now);
  /// All blocked entries are ready again.
  void unblock_all();

  /// Forgets what was lost only because that server was dead. Returns how many. Many of them stay for a while: who
  /// begins a repair sees that it is needless.
  size_t server_returned(ServerId server);
  /// Forgets the moves away from it, in the same way. Returns how many.
  size_t moves_cancelled(ServerId from);
  void stripe_deleted(StripeId stripe);
  /// Forgets the entries of stripes that are not `mine`, some at each call of advance(), and none is ready before all
  /// have been looked at. What is added from now on stays. A later call takes the place of this one, and asks `mine`
  /// about all that is left.
  void keep_only(std::function<bool(StripeId)> mine);

  bool contains(ChunkId chunk) const { return entries_.contains(chunk); }
  /// It waits for nothing but slots.
  bool is_ready(ChunkId chunk) const;
  size_t moves() const { return moves_; }
  size_t size() const { return entries_.size(); }
  size_t ready() const { return keeping_ ? 0 : ready_.size(); }
  size_t delayed() const { return delayed_.size(); }
  size_t blocked() const { return blocked_.size() + waking_.size(); }
  size_t unrepairable() const { return unrepairable_; }

 private:
  enum class Place { kReady, kDelayed, kUnrepairable, kNoDestination };
  struct Slot {
    QueueEntry entry;
    uint64_t sequence = 0;
    Place place = Place::kReady;
    bool was_blocked = false;
  };
  struct ReadyKey {
    WorkKind kind;
    int32_t spare;
    int32_t coolness;  // minus the heat class
    TimePoint lost_at;
    uint64_t sequence;
    auto operator<=>(const ReadyKey&) const = default;
  };
  using Slots = std::map<ChunkId, Slot>;  // ordered, so that the chunks of a stripe are neighbours

  /// What keep_only has still to do.
  struct Keeping {
    std::function<bool(StripeId)> mine;
    uint64_t before = 0;  ///< entries with a sequence number from this one on came after the call, and stay
    ChunkId next;         ///< chunks before this one have been examined
  };

  using Owner = std::pair<WorkKind, ServerId>;  // the dead server of a repair, or the source of a move

  static ReadyKey ready_key(const Slot& slot);
  void leave_owner(const QueueEntry& entry);
  size_t forget_all(Owner owner);
  /// True: there are more.
  bool forget_some();
  bool wake_some();
  bool keep_some();
  bool is_to_go(const Slots::value_type& entry) const;
  /// Whether the chunk was to be forgotten; then it is not any more.
  bool remember(ChunkId chunk);
  void insert(QueueEntry entry, TimePoint now);
  void link(ChunkId chunk, Slot& slot, Place place);
  void unlink(ChunkId chunk, Slot& slot);
  void erase(Slots::iterator at);
  /// For all entries of the stripe of `like`, which was looked up just now.
  void set_spare(const QueueEntry& like, TimePoint now);

  Slots entries_;
  std::map<ReadyKey, const QueueEntry*> ready_;  // these lie in entries_
  std::set<std::pair<TimePoint, ChunkId>> delayed_;
  std::set<ChunkId> blocked_;
  std::set<ChunkId> waking_;  ///< blocked entries that are to become ready
  bool wake_again_ = false;   ///< afterwards, the entries in blocked_ are to become ready, too
  std::deque<std::set<ChunkId>> forgetting_;  ///< entries to be erased; one set for each owner
  std::optional<Keeping> keeping_;
  TimePoint retry_blocked_at_{};
  Duration retry_after_ = kBlockedRetry;
  std::map<Owner, std::set<ChunkId>> by_server_;
  size_t moves_ = 0;
  size_t unrepairable_ = 0;
  uint64_t next_sequence_ = 0;
};

}  // namespace kintsugi::repair_manager
