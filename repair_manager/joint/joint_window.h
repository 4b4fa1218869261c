/// The lost chunks at the head of the queue as the joint schedule sees them.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "repair_manager/joint/joint_schedule.h"
#include "repair_manager/joint/queue.h"
#include "repair_manager/plan/planner.h"
#include "repair_manager/view/cluster_view.h"

namespace kintsugi::repair_manager {

/// A repair that is to begin now, and what the schedule wishes for it.
struct JointStart {
  QueueEntry entry;
  PlanWishes wishes;
};

class JointWindow {
 public:
  /// Bounds of entries(), the number of the queue's entries that are scheduled together: enough to fill the links of
  /// the servers there are.
  static constexpr size_t kMinEntries = 1024;
  /// The rest of the stripes that are fetched at once are left to losses that are taken in.
  static constexpr size_t kMaxEntries = ClusterView::kMaxFetched * 3 / 4;
  size_t entries() const { return std::clamp(2 * planner_.servers().all().size(), kMinEntries, kMaxEntries); }
  /// A stripe is looked up again after this time. Too old a picture only makes a worse schedule: every plan is made
  /// from the present one.
  static constexpr Duration kFresh = 5s;

  /// All outlive it.
  JointWindow(const Options& options, const RepairPlanner& planner, const ClusterView& view)
      : options_(options), planner_(planner), view_(view) {}

  /// Forgets old pictures. Before a turn's first fits(): the pictures that it used must be there for schedule().
  void trim(TimePoint now);

  /// Returns true if the entry can be scheduled jointly: it is a first attempt at the only lost chunk of its stripe,
  /// whose code takes any k helpers. Others are repaired greedily.
  bool fits(const QueueEntry& entry, TimePoint now);

  /// Chooses among entries that fit, given in the order of their urgency, those that begin now. `waiting`: the number
  /// of entries of their kind that wait in all.
  std::vector<JointStart> schedule(std::span<const QueueEntry> queued, size_t waiting);

  /// Returns true if the chunk, which fits, could be scheduled if nothing else ran.
  bool could_place(ChunkId chunk, size_t waiting);

 private:
  struct Known {
    TimePoint until;
    uint64_t membership = 0;
    bool fits = false;
    uint64_t length = 0;
    JointRepair repair;
    std::vector<uint32_t> indexes;  // the candidates' chunk indexes
    std::vector<uint32_t> empty;    // data chunks without bytes: they help without a server
    // Ascending: servers with a chunk of the stripe, which cannot be destinations.
    std::vector<uint32_t> holders;
    std::map<uint32_t, uint32_t> chunks_in_rack;
    uint32_t rack_limit = 0;
    std::optional<bool> could_place;  // nothing: it was not asked
  };

  Known look_up(ChunkId chunk) const;
  double split_cost(const Known& known) const;
  JointLimits limits(size_t waiting, const Known& like) const;
  std::vector<JointServer> servers() const;
  bool may_receive(const Known& known, ChunkId chunk, uint32_t server) const;

  const Options& options_;
  const RepairPlanner& planner_;
  const ClusterView& view_;
  std::unordered_map<ChunkId, Known> known_;
};

}  // namespace kintsugi::repair_manager
