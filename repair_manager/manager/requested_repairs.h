/// Repairs that somebody asks for and waits for (`kintsugi repair run`), ahead of the queue.
#pragma once

#include <vector>

#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "repair_manager/joint/queue.h"
#include "repair_manager/manager/repair_runner.h"
#include "repair_manager/manager/scheduler_events.h"
#include "repair_manager/plan/planner.h"
#include "repair_manager/view/cluster_view.h"

namespace kintsugi::repair_manager {

struct WantedRepair {
  StripeId stripe;
  /// Chunks rebuilt in one pass. The first one goes to `wishes.destination`.
  std::vector<uint32_t> indexes;
  PlanWishes wishes;
};

class RequestedRepairs {
 public:
  static constexpr Duration kMaxWait = 1h;  ///< time limit of run() when the context has no deadline
  static constexpr size_t kMaxWanted = 32;  ///< chunks in one run()
  /// Pause between two searches for free slots while no repair ends.
  static constexpr Duration kBusyRetry = 1s;

  /// What it works with. All outlive it.
  struct Parts {
    ClusterView& view;
    RepairPlanner& planner;
    RepairQueue& queue;
    RepairRunner& runner;
    SchedulerEvents& scheduler;
  };
  /// `attempts`: made at most.
  RequestedRepairs(const runtime::Runtime& runtime, uint32_t attempts, const Parts& parts);
  ~RequestedRepairs();  ///< REQUIRES: join() returned

  /// Repairs the chunks now. Healthy chunks are rebuilt from the others onto other servers as if they were lost: a
  /// measured move. Joins a repair of one of them that is running already. Waits for slots until the context's
  /// deadline. Returns the record of the last repair that was needed. Errors: of the last attempt; kNotFound: no such
  /// chunk; kInvalidArgument: not one to kMaxWanted different chunks.
  asio::awaitable<Result<proto::RepairRecord>> run(Context context, WantedRepair wanted);

  /// Tells all who wait at once. Attempts that run continue; join() waits for them.
  void request_stop();
  asio::awaitable<void> join();

 private:
  asio::awaitable<Result<proto::RepairRecord>> run_attempts(Context context, WantedRepair& wanted);
  std::shared_ptr<const RepairRun> running(const WantedRepair& wanted) const;
  asio::awaitable<Status> wait_for_end(Context context, std::shared_ptr<const RepairRun> run);
  /// Begins once slots are free. Nothing when another repair of one of the chunks is running.
  /// Waits until there are slots for such a repair, or the time is over: kLimitExceeded.
  asio::awaitable<Result<RepairPlan>> plan_when_free(Context context, const WantedRepair& wanted,
                                                     const std::vector<QueueEntry>& entries);
  asio::awaitable<Result<std::shared_ptr<RepairRun>>> begin_when_free(Context context,
                                                                      const WantedRepair& wanted,
                                                                      const std::vector<QueueEntry>& entries);
  std::shared_ptr<RepairRun> begin(RepairPlan plan, const std::vector<QueueEntry>& entries);
  /// The entries of these chunks in the queue, while a requested repair of them runs.
  using Queued = std::map<ChunkId, QueueEntry>;
  Queued take_queued(const std::vector<QueueEntry>& entries);
  void give_back(Queued queued, const std::vector<QueueEntry>& failed);

  runtime::Runtime runtime_;
  const uint32_t attempts_;
  ClusterView& view_;
  RepairPlanner& planner_;
  RepairQueue& queue_;
  RepairRunner& runner_;
  SchedulerEvents& scheduler_;
  size_t callers_ = 0;        // running calls of run()
  runtime::Event left_;       // notified when a call of run() ends
  runtime::TaskGroup tasks_;  // has no tasks: it ends the pauses of run() at shutdown
};

}  // namespace kintsugi::repair_manager
