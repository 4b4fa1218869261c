/// Decides what to repair, by which tree and in which order, and sees it through.
///
/// A lost chunk waits in the queue (queue.h) until it is due and slots are free (slots.h). All lost chunks of
/// a stripe that are ready are rebuilt in one pass. Many ready chunks are scheduled together
/// (joint_window.h), few of them greedily. A repair is planned (repair_planner.h) and handed to its root as
/// one RepairChunk call with a deadline; when that succeeds, the cluster view commits the new places. A
/// failed attempt excludes whoever is to blame and is planned anew, a bounded number of times in a row, then
/// goes back to the queue's tail. Chunks that are to leave a server are copied when nothing else is to do.
/// Degraded reads (read_plans.h) wait for nothing. Nothing polls: losses, ended repairs and due times wake
/// the scheduler.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/proto/meta.pb.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "monitoring/sight/recorder.h"
#include "repair_manager/joint/joint_window.h"
#include "repair_manager/joint/queue.h"
#include "repair_manager/manager/read_plans.h"
#include "repair_manager/manager/records.h"
#include "repair_manager/plan/options.h"
#include "repair_manager/plan/planner.h"
#include "repair_manager/view/cluster_view.h"

namespace kintsugi::repair_manager {

/// A repair that somebody asks for.
struct WantedRepair {
  StripeId stripe;
  std::vector<uint32_t> indexes;  ///< rebuilt in one pass; first: the one that goes to `wishes.destination`
  PlanWishes wishes;
};

class RepairManager {
 public:
  /// `view` outlives it; `recorder` may be null.
  RepairManager(const runtime::Runtime& runtime, Options options, ClusterView& view,
                sight::Recorder* recorder);
  ~RepairManager();  ///< after stop()

  void start();
  /// Waits for running repairs: the host ends the calls of `view.execute` first.
  asio::awaitable<void> stop();

  /// The chunk is missing or corrupt where it should be. Takes effect on the scheduler's next turn, as all of
  /// these.
  void chunk_lost(ChunkId chunk, std::string why, bool delay_ok);
  /// `ago`: it has been dead for so long. Includes end_attempts_with.
  void server_dead(ServerId server, std::vector<ChunkId> chunks, Duration ago = {});
  /// It was declared dead: what runs and needs it, as a helper or a destination, fails at once, names it, and
  /// is planned again. For a host that hears of a death before it knows what was lost, or leaves what was
  /// lost to others.
  void end_attempts_with(ServerId dead);
  /// The server is back, or is new: cancels the repairs of its chunks that have not begun, and retries what
  /// could not be repaired without it.
  void server_returned(ServerId server);
  void stripe_deleted(StripeId stripe);

  /// The chunk is to leave `from` (drain, rebalance) for `to`, or for the best server. Done when nothing is
  /// to be repaired; given up when it is no longer there; repaired instead when it gets lost.
  void move_wanted(ChunkId chunk, ServerId from, std::string why, ServerId to = {});
  /// Forgets the moves away from it that have not begun.
  void moves_cancelled(ServerId from);
  /// Moves that wait or run: who wants many asks for more when there are few.
  size_t moves() const;

  /// Forgets what waits for repair of stripes that are not `mine`: other managers' now.
  void keep_only(const std::function<bool(StripeId)>& mine);
  /// For repairs that are yet to be queued, and yet to start.
  void set_limits(Duration delay, uint32_t max_per_server);

  /// Repairs the chunks now, ahead of the queue (`kintsugi repair run`). Healthy chunks are rebuilt from the
  /// others onto other servers as if they were lost: a measured move. Joins a repair of one of them that is
  /// running already. Waits for slots until the context's deadline. The record is of the last repair that was
  /// needed. Errors: of the last attempt; kNotFound: no such chunk.
  asio::awaitable<Result<proto::RepairRecord>> run(Context context, WantedRepair wanted);

  /// See ReadPlans. A read of a lost chunk makes its repair more urgent. The stripe must be prepared.
  Result<proto::PlanReadResponse> plan_read(const proto::PlanReadRequest& request);
  Status finish_read(const proto::FinishReadRequest& request);

  proto::RepairStatusResponse status() const;
  /// Ended attempts, newest first.
  std::vector<proto::RepairRecord> history(size_t limit) const { return records_.history(limit); }

  static constexpr size_t kIntakePerTurn = 1024;     ///< losses looked up before others run
  static constexpr size_t kCandidatesPerTurn = 256;  ///< plans made before others run
  static_assert(kIntakePerTurn + JointWindow::kMaxEntries <= ClusterView::kMaxPrepared);
  /// So long a chunk that is due waits for the joint schedule if that could not place it even on idle
  /// servers; so many are examined in a turn.
  static constexpr Duration kJointPatience = 5s;
  static constexpr size_t kMaxDoubted = 16;
  static constexpr size_t kMaxBusyCandidates = 64;  ///< looked past when their servers are busy
  static constexpr Duration kBusyRetry =
      1s;  ///< for servers that are suspect: nobody tells when they are not
  static constexpr Duration kAsideCost = 1ms;  ///< the retry of what is aside comes later when there is much
  static constexpr Duration kMaxRunWait = 1h;  ///< of run(), when the context has no deadline
  /// With thousands of repairs under way, this part of them ends before more are scheduled: choosing looks at
  /// all that waits.
  static constexpr size_t kScheduleShare = 256;
  static constexpr size_t kMaxWanted = 32;      ///< chunks of one run()
  static constexpr Duration kGiveUpLimit = 5s;  ///< for telling a root that its repair is over

 private:
  /// Losses and wanted moves, not yet looked up.
  struct Intake {
    std::vector<ChunkId> chunks;  // taken from the back
    QueueEntry like;              // all but the chunk, spare and heat
  };
  /// A repair or move of some chunks of a stripe, and where they came from in the queue.
  struct Job {
    RepairPlan plan;
    std::vector<QueueEntry> entries;  // one for each target
    TimePoint began{};
    bool built = false;          // only the commit can still fail
    std::set<uint32_t> healthy;  // chunks that were there when somebody asked for their repair
  };
  /// A call of a repair's root. Who waits for it may leave earlier: it lives until the call ends.
  struct Call {
    explicit Call(const runtime::Runtime& runtime) : changed(runtime) {}
    runtime::Event changed;
    const RepairPlan* plan = nullptr;  // of the attempt that waits
    std::optional<Result<proto::RepairChunkResponse>> answer;
    ServerId dead;  // of the plan's servers
  };
  enum class Started { kYes, kBusy, kNever };

  // The scheduler's turns: repair_manager.cc.
  asio::awaitable<void> schedule();
  /// Of what the next turn looks at: those that are not prepared.
  std::vector<StripeId> stripes_to_prepare() const;
  void take_in();
  void add(ChunkId chunk, const Intake& intake);
  void retry_aside(TimePoint now);
  void wake();

  // What begins in a turn: start_ready.cc.
  void start_ready();
  /// Something became ready, or enough ended to make room for more than one.
  bool worth_scheduling(size_t window) const;
  void start_jointly(std::vector<QueueEntry> candidates);
  /// Whether some were busy. While a repair is, no move begins.
  bool start_greedily(const std::vector<QueueEntry>& candidates);
  /// kNever: it left the ready part of the queue.
  Started try_start(const QueueEntry& entry, const PlanWishes* wishes = nullptr);
  Result<RepairPlan> plan_entry(const QueueEntry& entry, const PlanWishes* wishes,
                                std::vector<QueueEntry>& together);
  PlanRequest plan_request(std::span<const QueueEntry> entries) const;
  PlanWishes default_wishes() const { return {.shape = options_.shape, .slice_bytes = options_.slice_bytes}; }

  // One attempt: repair_attempt.cc.
  /// Registers it as running and takes its slots, in one go with the planning.
  void begin(Job& job);
  asio::awaitable<void> run_queued(Job job);
  /// From begin() to its end in history. What failed is in `job.entries` afterwards, with the time of the
  /// next attempt.
  asio::awaitable<Status> attempt(Context context, Job& job);
  asio::awaitable<Status> call_and_commit(Context context, Job& job, proto::RepairRecord& record);
  /// The answer of the root; earlier, kUnavailable with the name of a server of the plan that died.
  asio::awaitable<Result<proto::RepairChunkResponse>> call_root(Context context, const RepairPlan& plan);
  asio::awaitable<void> carry(Context context, runtime::Endpoint root, proto::RepairChunkRequest request,
                              std::shared_ptr<Call> call);
  /// Tells the root, so that the servers that live waste nothing on it.
  asio::awaitable<void> give_up(runtime::Endpoint root, proto::EndRepairRequest request);
  /// Each target; what could not be committed is left in `job.entries`.
  asio::awaitable<Status> commit(Context context, Job& job, proto::RepairRecord& record);
  /// What to say of a chunk that has been rebuilt though it is there.
  static std::string describe_available(const Job& job, size_t target, ServerId server);
  void end(const Job& job, proto::RepairRecord record, const Status& status);
  void note_failure(Job& job, const Status& status);
  /// Moves are not: who wants them asks again.
  void put_back(Job& job);
  Duration attempt_limit(const RepairPlan& plan) const;

  // What somebody asked for: requested_repair.cc.
  asio::awaitable<Result<proto::RepairRecord>> run_attempts(Context context, WantedRepair& wanted);
  asio::awaitable<Status> wait_for_end(Context context, RepairId id);
  asio::awaitable<Status> attempt_requested(Context context, Job& job);
  /// A job once slots are free, or nothing when another repair of one of the chunks is running.
  asio::awaitable<Result<std::optional<Job>>> plan_when_free(Context context, const WantedRepair& wanted,
                                                             const std::vector<QueueEntry>& entries);
  std::optional<RepairId> running_repair(const WantedRepair& wanted) const;

  runtime::Runtime runtime_;
  Options options_;
  ClusterView& view_;
  sight::Recorder* recorder_;
  runtime::TaskGroup tasks_;
  runtime::Event wake_;   // the scheduler
  runtime::Event ended_;  // a repair ended, or a caller of run() left

  bool changed_ = false;  // since the scheduler's turn began
  std::deque<Intake> intake_;
  RepairQueue queue_;
  RepairPlanner planner_;
  RepairRecords records_;
  ReadPlans reads_;
  JointWindow window_;
  TimePoint aside_retry_at_{}, schedule_again_at_{};
  size_t ready_at_schedule_ = 0, ended_since_schedule_ = 0;
  std::map<ChunkId, RepairId> running_;              // chunks that are being repaired or moved
  std::map<uint64_t, std::shared_ptr<Call>> calls_;  // by repair id: those that are waited for
  std::set<ChunkId> told_;                           // of them, those that were told to be lost meanwhile
  size_t jobs_ = 0, running_moves_ = 0;              // of what runs
  std::map<ServerId, uint32_t> moving_from_;
  size_t callers_ = 0;  // of run()
  uint64_t done_ = 0, failed_ = 0, bytes_repaired_ = 0;
};

}  // namespace kintsugi::repair_manager
