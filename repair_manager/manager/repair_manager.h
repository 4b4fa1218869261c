/// Decides what to repair and in which order, and sees it through.
///
/// A lost chunk is looked up (repair_intake.h) and waits in the queue (queue.h) until it is due and slots are free
/// (slots.h). The scheduler's turns choose what begins (repair_starter.h), attempts are carried out by
/// repair_runner.h, and what failed goes back to the queue. Chunks that are to leave a server are copied when nothing
/// is to be repaired. Degraded reads (read_plans.h) and requested repairs (requested_repairs.h) do not wait in the
/// queue. Nothing polls: losses, ended repairs and due times wake the scheduler.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/proto/meta.pb.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "monitoring/sight/recorder.h"
#include "repair_manager/joint/queue.h"
#include "repair_manager/manager/read_plans.h"
#include "repair_manager/manager/records.h"
#include "repair_manager/manager/refused_chunks.h"
#include "repair_manager/manager/repair_intake.h"
#include "repair_manager/manager/repair_runner.h"
#include "repair_manager/manager/repair_starter.h"
#include "repair_manager/manager/requested_repairs.h"
#include "repair_manager/manager/scheduler_events.h"
#include "repair_manager/plan/options.h"
#include "repair_manager/plan/planner.h"
#include "repair_manager/view/cluster_view.h"

namespace kintsugi::repair_manager {

/// How much waits, runs and was done since the start.
struct RepairCounts {
  size_t queued = 0;        ///< chunks that wait for slots or have not been looked up yet
  size_t delayed = 0;       ///< chunks whose server may return, or whose last attempt failed recently
  size_t unrepairable = 0;  ///< chunks with too few others to rebuild them
  size_t running = 0;       ///< repairs, moves and degraded reads that run
  uint64_t done = 0;        ///< chunks rebuilt or moved, and committed
  uint64_t failed = 0;      ///< failed attempts
  uint64_t bytes_repaired = 0;
};

class RepairManager final : private SchedulerEvents {
 public:
  static constexpr size_t kIntakePerTurn = 1024;  ///< losses looked up in one turn
  static_assert(kIntakePerTurn + JointWindow::kMaxEntries <= ClusterView::kMaxFetched);
  /// Time until the scheduler looks again at ready chunks that it could not start: nobody tells when a server is no
  /// longer suspect.
  static constexpr Duration kBusyRetry = 1s;

  /// `view` outlives it; `recorder` may be null.
  RepairManager(const runtime::Runtime& runtime, Options options, ClusterView& view,
                sight::Recorder* recorder);
  ~RepairManager() override;  ///< REQUIRES: stop() returned, or start() was never called

  void start();
  /// Waits for running repairs: the host ends the calls of `view.execute` first.
  asio::awaitable<void> stop();

  /// The chunk is missing or corrupt where it should be. Takes effect on the scheduler's next turn, as all of these.
  void chunk_lost(ChunkId chunk, std::string why, bool delay_ok) override;
  /// The server has been dead for `ago` and held these chunks. They wait for the repair delay, and for its maintenance
  /// to end, unless that is dangerous (is_urgent). Includes end_attempts_with.
  void server_dead(ServerId server, std::vector<ChunkId> chunks, Duration ago = {});
  /// The server was declared dead: attempts that need it, as a helper or a destination, fail at once, blame it, and are
  /// planned again. For a host that hears of a death before it knows what was lost, or leaves what was lost to others.
  void end_attempts_with(ServerId dead);
  /// The server is back, or is new: cancels the repairs of its chunks that have not begun, and retries what could not
  /// be repaired without it.
  void server_returned(ServerId server);
  /// The server's maintenance began or ended, or has another end: forgets the repairs of its chunks that have not begun.
  /// If it is dead, the host tells of it anew (server_dead).
  void maintenance_changed(ServerId server);
  void stripe_deleted(StripeId stripe);
  /// The view shows other servers: the next plan looks at them.
  void servers_changed() { planner_.servers_changed(); }

  /// The chunk is to leave `from` (drain, rebalance) for `to`, or for the best server. Done when nothing is to be
  /// repaired; given up when it is no longer there; repaired instead when it gets lost.
  void move_wanted(ChunkId chunk, ServerId from, std::string why, ServerId to = {});
  /// Forgets the moves away from the server that have not begun.
  void moves_cancelled(ServerId from);
  /// Moves that wait or run: who wants many asks for more when there are few.
  size_t moves() const;

  /// Forgets waiting repairs of stripes that are not `mine`: they are other managers' now. They are a million,
  /// perhaps: it begins with the next turns, `mine` is asked then, and no repair begins before it is done. What is
  /// told from now on stays.
  void keep_only(std::function<bool(StripeId)> mine);
  /// The limits hold for repairs that are yet to be queued, and yet to start.
  void set_limits(Duration delay, uint32_t max_per_server);

  /// See RequestedRepairs::run.
  asio::awaitable<Result<proto::RepairRecord>> run(Context context, WantedRepair wanted) {
    return requested_.run(context, std::move(wanted));
  }
  /// Serves `kintsugi repair run`. Errors: as run(); kInvalidArgument: no such shape.
  asio::awaitable<Status> run_repair(Context context, const proto::RunRepairRequest& request,
                                     proto::RunRepairResponse& response);

  /// See ReadPlans. A read of a lost chunk makes its repair more urgent. REQUIRES: the view fetched the stripe.
  Result<proto::PlanReadResponse> plan_read(const proto::PlanReadRequest& request);
  Status finish_read(const proto::FinishReadRequest& request);

  RepairCounts counts() const;
  /// The counts, and a record of each repair that runs.
  proto::RepairStatusResponse status() const;
  /// Ended attempts, newest first.
  std::vector<proto::RepairRecord> history(size_t limit) const { return records_.history(limit); }
  /// What people call a server.
  std::string name_of(ServerId server) const { return view_.name_of(server); }

 private:
  void wake() override;

  asio::awaitable<void> schedule();
  /// Stripes that the next turn looks at and that are not fetched.
  std::vector<StripeId> stripes_to_fetch() const;
  void take_in();
  /// Queues a chunk that was told of, and the other lost chunks of its stripe that are due with it.
  void add(QueueEntry entry);
  void enqueue(QueueEntry entry);
  void start_ready();
  /// Carries out what begun, and puts what failed back into the queue.
  asio::awaitable<void> run_queued(std::shared_ptr<RepairRun> run);

  runtime::Runtime runtime_;
  Options options_;
  ClusterView& view_;
  sight::Recorder* recorder_;
  runtime::Event wake_;   // wakes the scheduler
  bool changed_ = false;  // something has changed since the scheduler's turn began
  RepairIntake intake_;
  RepairQueue queue_;
  RefusedChunks refused_;
  RepairPlanner planner_;
  RepairRecords records_;
  ReadPlans reads_;
  RepairRunner runner_;
  RepairStarter starter_;
  RequestedRepairs requested_;
  runtime::TaskGroup tasks_;  // the scheduler and run_queued()
};

}  // namespace kintsugi::repair_manager
