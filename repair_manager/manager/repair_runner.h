/// Carries out repairs and moves: begins them, calls their roots, commits what was built and learns from failures.
///
/// Owns all that is known of what runs: its plans, the slots it takes, the calls of its roots. One RepairChunk call
/// with a deadline hands an attempt to its root; when that succeeds, the cluster view commits the new places. A failed
/// attempt excludes whoever is to blame from the next ones and says when the next one is due; who tries again is up to
/// the caller. One class, though a long one: begin, call, commit and end are the life of one RepairRun, and each of
/// them changes the same slots and calls.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "repair_manager/manager/records.h"
#include "repair_manager/manager/repair_run.h"
#include "repair_manager/manager/scheduler_events.h"
#include "repair_manager/plan/options.h"
#include "repair_manager/plan/planner.h"
#include "repair_manager/view/cluster_view.h"

namespace kintsugi::repair_manager {

class RepairRunner {
 public:
  static constexpr Duration kFirstBackoff = 100ms;  ///< first pause; each further one is four times that
  static constexpr Duration kTailBackoff = 30s;     ///< pause after attempts_in_a_row failures
  static constexpr double kDeadlineFactor = 10;  ///< deadline of an attempt, by its estimate on idle servers
  /// Deadline of one attempt at most, unless it needs longer by its estimate: then kLeastFactor times that, up to
  /// kLongestDeadline.
  static constexpr Duration kMaxDeadline = 30min, kLongestDeadline = 12h;
  static constexpr double kLeastFactor = 2;
  static constexpr Duration kCommitLimit = 30s;  ///< time limit for committing one chunk
  static constexpr Duration kGiveUpLimit = 5s;   ///< time limit for telling a root that its repair is over

  /// All outlive it.
  RepairRunner(const runtime::Runtime& runtime, const Options& options, ClusterView& view,
               RepairPlanner& planner, RepairRecords& records, SchedulerEvents& scheduler);
  ~RepairRunner();  ///< REQUIRES: join() returned

  /// Registers an attempt as running and takes its slots. `entries`: where each target came from, in the plan's order.
  /// REQUIRES: the plan was made without a suspension since; carry_out() follows.
  std::shared_ptr<RepairRun> begin(RepairPlan plan, std::vector<QueueEntry> entries,
                                   std::set<uint32_t> healthy = {});
  /// Runs what begin() returned to its end in the history. Errors: of the root's call or of the first commit that
  /// failed; kUnavailable, with a culprit, as soon as a server of the plan is declared dead.
  asio::awaitable<Status> carry_out(Context context, std::shared_ptr<RepairRun> run);

  /// A server was declared dead: attempts that need it, as a helper or a destination, fail at once and blame it.
  void end_attempts_with(ServerId dead);
  /// The chunk, which is being repaired or moved, was reported lost: maybe in its new place. The scheduler hears of it
  /// when the attempt has ended, unless another attempt follows anyway. REQUIRES: runs(chunk).
  void note_lost_again(ChunkId chunk);

  bool runs(ChunkId chunk) const { return running_.contains(chunk); }
  /// The attempt that repairs or moves the chunk now; null: none.
  std::shared_ptr<const RepairRun> find(ChunkId chunk) const;
  /// Asks for a plan for these chunks, which belong to one stripe, apart from what runs for that stripe.
  PlanRequest plan_request(std::span<const QueueEntry> entries) const;
  /// True when an attempt ended (or the runner was asked to stop), false at the deadline.
  asio::awaitable<bool> wait_for_an_end(TimePoint deadline) { return ended_.wait_until(deadline); }

  /// The task of the attempt that has had its slots for longest; 0: none has any.
  uint64_t longest_holder() const { return with_slots_.empty() ? 0 : with_slots_.front()->span; }

  size_t running() const { return jobs_; }                 ///< running attempts
  size_t running_moves() const { return running_moves_; }  ///< running attempts that only move a chunk
  uint32_t moves_from(ServerId server) const;              ///< running moves away from the server
  uint64_t ended() const { return attempts_ended_; }       ///< attempts that ended since the start
  uint64_t done() const { return done_; }                  ///< chunks committed since the start
  uint64_t failed() const { return failed_; }              ///< attempts that failed since the start
  uint64_t bytes_repaired() const { return bytes_repaired_; }

  /// Wakes all who wait for an end. Attempts end when their calls do: the host ends the calls of `view.execute`.
  void request_stop();
  asio::awaitable<void> join() { return tasks_.join(); }

 private:
  Duration attempt_limit(const RepairPlan& plan) const;
  asio::awaitable<Status> call_and_commit(Context context, std::shared_ptr<RepairRun> run);
  asio::awaitable<Result<proto::RepairChunkResponse>> call_root(Context context,
                                                                std::shared_ptr<RepairRun> run);
  asio::awaitable<void> carry_call(Context context, std::shared_ptr<RepairRun> run);
  /// Tells the root that its repair is over, so that the servers that live waste nothing on it.
  asio::awaitable<void> give_up(runtime::Endpoint root, proto::EndRepairRequest request);
  /// Commits each target. The entries of those that could not be committed are left in the run.
  asio::awaitable<Status> commit(Context context, RepairRun& run);
  void end(RepairRun& run, const Status& status);
  void note_failure(RepairRun& run, const Status& status);

  runtime::Runtime runtime_;
  const Options& options_;
  ClusterView& view_;
  RepairPlanner& planner_;
  RepairRecords& records_;
  SchedulerEvents& scheduler_;
  // Key: chunk; a repair of several chunks has an entry for each.
  std::map<ChunkId, std::shared_ptr<RepairRun>> running_;
  std::vector<std::shared_ptr<const RepairRun>> with_slots_;  // attempts that have slots, oldest first
  std::map<ServerId, uint32_t> moves_from_;                   // number of running moves by source
  size_t jobs_ = 0, running_moves_ = 0;
  uint64_t attempts_ended_ = 0, done_ = 0, failed_ = 0, bytes_repaired_ = 0;
  runtime::Event ended_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::repair_manager
