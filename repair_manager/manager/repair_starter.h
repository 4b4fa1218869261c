/// Chooses what begins in a turn of the scheduler: many ready chunks jointly, few of them greedily, moves last.
///
/// All lost chunks of a stripe that are ready are rebuilt in one pass. While a repair waits for slots, no move begins.
#pragma once

#include <memory>
#include <vector>

#include "common/runtime/runtime.h"
#include "repair_manager/joint/joint_window.h"
#include "repair_manager/joint/queue.h"
#include "repair_manager/manager/repair_runner.h"
#include "repair_manager/plan/options.h"
#include "repair_manager/plan/planner.h"
#include "repair_manager/view/cluster_view.h"

namespace kintsugi::repair_manager {

class RepairStarter {
 public:
  static constexpr size_t kCandidatesPerTurn = 256;  ///< plans made in one turn
  static constexpr size_t kJointThreshold = 2;       ///< fewer ready chunks than this are scheduled greedily
  static constexpr size_t kMaxMoves = 64;            ///< running attempts that only move a chunk
  /// Chunks that one turn passes over because their servers are busy.
  static constexpr size_t kMaxBusyCandidates = 64;
  /// How long a chunk that is due waits for the joint schedule if that could not place it even on idle servers, and how
  /// many chunks are examined for this in a turn.
  static constexpr Duration kJointPatience = 5s;
  static constexpr size_t kMaxDoubted = 16;
  /// With thousands of repairs under way, this part of them ends before more are scheduled: choosing looks at all
  /// that waits.
  static constexpr size_t kScheduleShare = 256;
  /// After this time the joint schedule is made again, whatever changed: nobody tells when a server is no
  /// longer suspect.
  static constexpr Duration kScheduleAgain = 1s;

  /// All outlive it.
  RepairStarter(const runtime::Runtime& runtime, const Options& options, const ClusterView& view,
                RepairPlanner& planner, RepairQueue& queue, RepairRunner& runner);

  struct Turn {
    /// Repairs that have left the queue; the caller must carry them out.
    std::vector<std::shared_ptr<RepairRun>> begun;
    std::vector<ChunkId> lost;  ///< chunks that were to be moved, but must be repaired
    bool more = false;          ///< another turn at once may begin more
  };
  /// `coming`: losses that are known, but not in the queue yet. Stripes that are not fetched are left to later turns.
  Turn take_turn(size_t coming);

  /// Entries at the head of the queue that a turn may look at.
  size_t window() const { return window_.entries(); }

 private:
  enum class Started { kYes, kBusy, kNever };

  /// Something became ready, or enough ended to make room for more than one.
  bool worth_scheduling(size_t window, size_t coming) const;
  void start_jointly(std::vector<QueueEntry> candidates, size_t coming, Turn& turn);
  /// Returns whether some were busy.
  bool start_greedily(const std::vector<QueueEntry>& candidates, Turn& turn);
  /// kNever: it left the ready part of the queue. `wishes`: of the joint schedule; null: none.
  Started try_start(const QueueEntry& entry, const PlanWishes* wishes, Turn& turn);
  PlanRequest request_for(std::span<const QueueEntry> entries) const;
  Result<RepairPlan> plan(const QueueEntry& entry, const PlanWishes* wishes) const;
  Result<RepairPlan> plan_move(const QueueEntry& entry) const;
  void block(const QueueEntry& entry, const Status& why);
  PlanWishes default_wishes() const { return {.shape = options_.shape, .slice_bytes = options_.slice_bytes}; }

  runtime::Runtime runtime_;
  const Options& options_;
  const ClusterView& view_;
  RepairPlanner& planner_;
  RepairQueue& queue_;
  RepairRunner& runner_;
  JointWindow window_;

  // The last turn that chose anything.
  size_t ready_left_ = 0;    // ready chunks that the last turn left in the queue
  uint64_t ended_then_ = 0;  // number of ended attempts at that time
  TimePoint again_at_{};     // latest time of the next joint schedule
};

}  // namespace kintsugi::repair_manager
