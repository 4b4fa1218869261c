/// Decides what to repair, by which tree and in which order, and sees it through.
///
/// A lost chunk waits in the queue (queue.h) until it is due and slots are free (slots.h). A repair is
/// planned (planner.h) and handed to the destination as one RepairChunk call with a deadline; when that
/// succeeds, the cluster view commits the new place. A failed attempt excludes whoever is to blame and is
/// planned anew, a bounded number of times in a row, then goes back to the queue's tail. Nothing polls:
/// losses, ended repairs and due times wake the scheduler.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/proto/meta.pb.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "monitoring/sight/recorder.h"
#include "repair_manager/cluster_view.h"
#include "repair_manager/planner.h"
#include "repair_manager/queue.h"
#include "repair_manager/slots.h"

namespace kintsugi::repair_manager {

struct Options {
  Duration delay{};                ///< after a server's death, for stripes with more than one spare chunk
  uint32_t max_per_server = 4;     ///< repairs in which a server helps, and that it receives
  size_t max_running = 256;        ///< in all
  uint32_t attempts_in_a_row = 4;  ///< then the chunk goes to the queue's tail
  Duration first_backoff = 100ms;  ///< after a failed attempt; times 4 for each further one in a row
  Duration tail_backoff = 30s;
  Duration aside_retry = 10s;   ///< what cannot be repaired now is looked at again, at the latest
  Duration suspicion = 30s;     ///< how long a server that failed a repair is avoided
  Duration min_deadline = 30s;  ///< of one attempt
  double deadline_factor = 10;  ///< times the estimate
  size_t history = 1000;        ///< records kept
  LinkModel link;
  Shape shape = Shape::kAuto;
  uint64_t slice_bytes = 0;  ///< 0: the cost model's default
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
  /// `ago`: it has been dead for so long.
  void server_dead(ServerId server, std::vector<ChunkId> chunks, Duration ago = {});
  /// The server is back, or is new: cancels the repairs of its chunks that have not begun, and retries what
  /// could not be repaired without it.
  void server_returned(ServerId server);
  void stripe_deleted(StripeId stripe);

  /// Forgets what waits for repair of stripes that are not `mine`: other managers' now.
  void keep_only(const std::function<bool(StripeId)>& mine);
  /// For repairs that are yet to be queued, and yet to start.
  void set_limits(Duration delay, uint32_t max_per_server);

  /// Repairs the chunk now, ahead of the queue (`kintsugi repair run`). A healthy chunk is rebuilt from the
  /// others onto another server as if it were lost: a measured move. Joins a repair of the chunk that is
  /// running already. Waits for slots until the context's deadline. Errors: of the last attempt; kNotFound:
  /// no such chunk.
  asio::awaitable<Result<proto::RepairRecord>> run(Context context, ChunkId chunk, Shape shape,
                                                   uint64_t slice_bytes, ServerId destination);

  proto::RepairStatusResponse status() const;
  /// Ended attempts, newest first.
  std::vector<proto::RepairRecord> history(size_t limit) const;

  static constexpr size_t kIntakePerTurn = 1024;     ///< losses looked up before others run
  static constexpr size_t kCandidatesPerTurn = 256;  ///< plans made before others run
  static constexpr size_t kMaxBusyCandidates = 64;   ///< looked past when their servers are busy
  static constexpr Duration kBusyRetry =
      1s;  ///< for servers that are suspect: nobody tells when they are not
  static constexpr Duration kAsideCost = 1ms;  ///< the retry of what is aside comes later when there is much
  static constexpr Duration kServersFresh = 100ms;  ///< how old the picture of the servers may be
  static constexpr Duration kMaxRunWait = 1h;       ///< of run(), when the context has no deadline

 private:
  /// Losses not yet looked up.
  struct Intake {
    std::vector<ChunkId> chunks;  // taken from the back
    ServerId dead_server;
    TimePoint lost_at, due;
    std::shared_ptr<const std::string> reason;
  };

  asio::awaitable<void> schedule();
  /// Of what the next turn looks at: those that are not prepared.
  std::vector<StripeId> stripes_to_prepare() const;
  void take_in();
  void add(ChunkId chunk, const Intake& loss);
  void start_ready();
  bool try_start(const QueueEntry& entry);  // false: servers busy

  Result<RepairPlan> plan(const QueueEntry& entry, const PlanWishes& wishes, bool requested);
  void refresh_servers();
  asio::awaitable<void> run_queued(QueueEntry entry, RepairPlan plan);
  /// Registers it as running and takes its slots, in one go with the planning.
  void begin(const RepairPlan& plan, const QueueEntry& entry);
  /// One attempt, from begin() to its end in history.
  asio::awaitable<Status> attempt(Context context, const RepairPlan& plan);
  asio::awaitable<Status> call_and_commit(Context context, const RepairPlan& plan,
                                          proto::RepairRecord& record);
  void end(const RepairPlan& plan, proto::RepairRecord record, const Status& status);
  /// Learns from the failure; returns when to try again.
  TimePoint note_failure(QueueEntry& entry, const RepairPlan& plan, const Status& status);
  asio::awaitable<Result<proto::RepairRecord>> run_attempts(Context context, QueueEntry& entry,
                                                            const PlanWishes& wishes);
  asio::awaitable<Status> wait_for_end(Context context, ChunkId chunk, uint64_t repair_id);
  asio::awaitable<Status> attempt_requested(Context context, QueueEntry& entry, const RepairPlan& plan);
  /// A plan once slots are free, or nothing when another repair of the chunk is running.
  asio::awaitable<Result<std::optional<RepairPlan>>> plan_when_free(Context context, const QueueEntry& entry,
                                                                    const PlanWishes& wishes);
  const proto::RepairRecord* find_record(uint64_t repair_id) const;
  Duration attempt_limit(const RepairPlan& plan) const;
  void wake();

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
  SlotTable slots_;
  ServerTable servers_;
  TimePoint servers_fresh_until_{};
  TimePoint aside_retry_at_{};
  std::map<ServerId, TimePoint> suspect_until_;
  std::set<ServerId> suspects_;
  std::map<ChunkId, proto::RepairRecord> running_;
  std::deque<proto::RepairRecord> history_;  // newest first
  size_t callers_ = 0;                       // of run()
  uint64_t done_ = 0, failed_ = 0, bytes_repaired_ = 0;
};

}  // namespace kintsugi::repair_manager
