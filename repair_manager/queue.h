/// The lost chunks that wait for repair, most endangered first.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/runtime/clock.h"

namespace kintsugi::repair_manager {

/// One lost chunk. No copy of the stripe: what it looks like is asked when its turn comes.
struct QueueEntry {
  ChunkId chunk;
  int32_t spare = 0;     ///< available chunks of the stripe beyond k; negative: not repairable now
  TimePoint lost_at;     ///< age
  TimePoint due;         ///< not before
  ServerId dead_server;  ///< whose return makes the repair needless; none: only the chunk was lost
  std::shared_ptr<const std::string> reason;
  uint32_t attempt = 0;            ///< attempts that failed so far
  uint32_t rotation = 0;           ///< of those, after how many nobody knew whom to blame
  std::vector<ServerId> excluded;  ///< failed in the last attempts
};

/// Ordered by remaining redundancy (fewest spare first), then by age. A chunk is in it at most once, in one
/// of three places: ready; delayed (its server may return, or a failed attempt backs off); aside (cannot be
/// repaired now).
class RepairQueue {
 public:
  static constexpr size_t kMaxEntries = 8 << 20;  ///< about 2 GiB

  /// A stripe with so few spare chunks is repaired without delay.
  static constexpr int32_t kUrgentSpare = 1;

  /// Takes the entry in as ready or delayed, by its `due`. A chunk that is in already keeps its age and
  /// attempts, gets the new spare and the earlier due time. `spare` becomes that of all entries of the
  /// stripe, and urgent ones become ready at once unless they back off. False when full.
  bool add(QueueEntry entry, TimePoint now);

  /// Moves what is due to ready. Returns when the next one will be (TimePoint::max() = none).
  TimePoint advance(TimePoint now);

  /// Ready entries in order; `visit` returns false to stop. It must not change the queue.
  template <class Visit>
  void for_each_ready(Visit visit) const {
    for (const auto& [key, chunk] : ready_)
      if (!visit(entries_.at(chunk).entry)) break;
  }

  std::optional<QueueEntry> take(ChunkId chunk);
  /// Puts a ready entry aside, until release_aside. True when that is the first time.
  enum class Aside { kUnrepairable, kNoDestination };
  bool put_aside(ChunkId chunk, Aside why);
  /// All that is aside is ready again.
  void release_aside();

  /// Forgets what was lost only because that server was dead. Returns how many.
  size_t server_returned(ServerId server);
  void stripe_deleted(StripeId stripe);
  /// Forgets all of other stripes.
  void keep_only(const std::function<bool(StripeId)>& mine);

  bool contains(ChunkId chunk) const { return entries_.contains(chunk); }
  size_t size() const { return entries_.size(); }
  size_t ready() const { return ready_.size(); }
  size_t delayed() const { return delayed_.size(); }
  size_t aside() const { return aside_.size(); }
  size_t unrepairable() const { return unrepairable_; }

 private:
  enum class Place { kReady, kDelayed, kUnrepairable, kNoDestination };
  struct Slot {
    QueueEntry entry;
    uint64_t sequence = 0;
    Place place = Place::kReady;
    bool was_aside = false;
  };
  struct ReadyKey {
    int32_t spare;
    TimePoint lost_at;
    uint64_t sequence;
    auto operator<=>(const ReadyKey&) const = default;
  };
  using Slots = std::map<ChunkId, Slot>;  // a stripe's chunks are neighbours

  void link(ChunkId chunk, Slot& slot, Place place);
  void unlink(ChunkId chunk, Slot& slot);
  void erase(Slots::iterator at);
  void set_spare(StripeId stripe, int32_t spare, TimePoint now);

  Slots entries_;
  std::map<ReadyKey, ChunkId> ready_;
  std::set<std::pair<TimePoint, ChunkId>> delayed_;
  std::set<ChunkId> aside_;
  std::map<ServerId, std::set<ChunkId>> by_server_;
  size_t unrepairable_ = 0;
  uint64_t next_sequence_ = 0;
};

}  // namespace kintsugi::repair_manager
