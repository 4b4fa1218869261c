#include "repair_manager/manager/repair_runner.h"

#include <algorithm>

#include "common/base/assert.h"
#include "common/log/log.h"
#include "common/proto/names.h"
#include "common/runtime/fault_points.h"
#include "monitoring/sight/module.h"
#include "repair_manager/plan/blame.h"

namespace kintsugi::repair_manager {
namespace {

constexpr sight::Site kRepair{"repair_manager.repair", {"chunk_bytes", "helpers", "slice_bytes"}};
constexpr sight::Site kCallRoot{"repair_manager.call_root"};
constexpr sight::Site kCommit{"repair_manager.commit"};
// A link that this many repairs share is not yet slower than kDeadlineFactor allows for.
constexpr double kSharers = 4;

proto::EndRepairRequest ending(const proto::RepairChunkRequest& repair) {
  proto::EndRepairRequest request;
  request.set_stripe_id(repair.stripe_id());
  request.set_index(repair.index());
  request.set_repair_id(repair.repair_id());
  request.set_capability(repair.capability());
  return request;
}

void append_detail(proto::RepairRecord& record, const std::string& text) {
  record.set_detail(record.detail().empty() ? text : record.detail() + "; " + text);
}

std::string describe_targets(const RepairPlan& plan, const ClusterView& view) {
  std::string text;
  for (const RepairTarget& target : plan.targets)
    text += fmt::format("{}chunk {} onto server {}", text.empty() ? "" : ", ",
                        ChunkId{plan.stripe, target.index}, view.name_of(target.destination));
  return text;
}

/// Says, for people, that a chunk has been rebuilt though `server` has it.
std::string describe_available(const RepairRun& run, const RepairTarget& target, ServerId server,
                               const ClusterView& view) {
  const ChunkId chunk{run.plan.stripe, target.index};
  if (!run.healthy.contains(target.index))
    return fmt::format("chunk {} was available on server {} again", chunk, view.name_of(server));
  return fmt::format("chunk {} was not lost: rebuilt from the others, it moves from server {} to server {}",
                     chunk, view.name_of(server), view.name_of(target.destination));
}

bool needs(const RepairPlan& plan, ServerId server) {
  return std::ranges::find(plan.helpers, server) != plan.helpers.end() ||
         std::ranges::find(plan.targets, server, &RepairTarget::destination) != plan.targets.end();
}

}  // namespace

RepairRunner::RepairRunner(const runtime::Runtime& runtime, const Options& options, ClusterView& view,
                           RepairPlanner& planner, RepairRecords& records, SchedulerEvents& scheduler)
    : runtime_(runtime),
      options_(options),
      view_(view),
      planner_(planner),
      records_(records),
      scheduler_(scheduler),
      ended_(runtime),
      tasks_(runtime) {}

RepairRunner::~RepairRunner() {
  KINTSUGI_ASSERT(jobs_ == 0 && "destroyed while repairs run");
}

void RepairRunner::request_stop() {
  tasks_.request_stop();
  ended_.notify_all();
}

// ---- what runs -----------------------------------------------------------------------------------------------------

std::shared_ptr<const RepairRun> RepairRunner::find(ChunkId chunk) const {
  const auto run = running_.find(chunk);
  return run == running_.end() ? nullptr : run->second;
}

void RepairRunner::note_lost_again(ChunkId chunk) {
  running_.at(chunk)->lost_again.insert(chunk);
}

uint32_t RepairRunner::moves_from(ServerId server) const {
  const auto moves = moves_from_.find(server);
  return moves == moves_from_.end() ? 0 : moves->second;
}

PlanRequest RepairRunner::plan_request(std::span<const QueueEntry> entries) const {
  PlanRequest request{.stripe = entries.front().chunk.stripe};
  for (const QueueEntry& entry : entries) {
    request.indexes.push_back(entry.chunk.index);
    request.excluded.insert(request.excluded.end(), entry.excluded.begin(), entry.excluded.end());
    request.rotation = std::max(request.rotation, entry.rotation);
  }
  for (auto at = running_.lower_bound({request.stripe, 0});
       at != running_.end() && at->first.stripe == request.stripe; ++at)
    for (const RepairTarget& target : at->second->plan.targets)
      if (target.index == at->first.index) request.receiving.push_back(target.destination);
  return request;
}

// ---- one attempt ---------------------------------------------------------------------------------------------------

std::shared_ptr<RepairRun> RepairRunner::begin(RepairPlan made, std::vector<QueueEntry> entries,
                                               std::set<uint32_t> healthy) {
  made.request.set_urgent(std::ranges::any_of(entries, is_without_spare));
  const auto run = std::make_shared<RepairRun>(runtime_, std::move(made));
  const RepairPlan& plan = run->plan;
  KINTSUGI_ASSERT(entries.size() == plan.targets.size() && "an entry for each target");
  run->entries = std::move(entries);
  run->healthy = std::move(healthy);
  run->began = runtime_.clock.now();

  planner_.take_slots(plan);
  with_slots_.push_back(run);

  const QueueEntry& entry = run->entries.front();
  run->record = describe(plan, runtime_.clock.wall_now());
  run->record.set_attempt(entry.attempt + 1);
  if (entry.reason) run->record.set_reason(*entry.reason);
  run->record.set_queued_seconds(to_seconds(run->began - entry.lost_at));
  records_.begin(run->record);

  for (const RepairTarget& target : plan.targets) {
    const bool is_new = running_.emplace(ChunkId{plan.stripe, target.index}, run).second;
    KINTSUGI_ASSERT(is_new && "a chunk is repaired once at a time");
  }
  ++jobs_;
  if (plan.kind == proto::RepairRecord::MOVE) {
    ++running_moves_;
    ++moves_from_[plan.targets.front().old_server];
  }
  return run;
}

Duration RepairRunner::attempt_limit(const RepairPlan& plan) const {
  uint32_t busiest = planner_.slots().load(plan.targets.front().destination).repairs();
  for (ServerId helper : plan.helpers)
    busiest = std::max(busiest, planner_.slots().load(helper).repairs());
  const double shared = std::max(1.0, busiest / kSharers);
  // Compared as doubles: an estimate may be longer than a Duration can be.
  using Seconds = std::chrono::duration<double>;
  const Seconds generous{plan.choice.seconds * kDeadlineFactor * shared};
  // What servers let repairs have may be so little that a repair takes longer than kMaxDeadline as it was estimated.
  const Seconds needed{plan.choice.seconds * std::max(1u, busiest) * kLeastFactor};
  const auto most = std::min<Seconds>(std::max<Seconds>(kMaxDeadline, needed), kLongestDeadline);
  return std::chrono::duration_cast<Duration>(
      std::max<Seconds>(std::min(generous, most), options_.min_deadline));
}

asio::awaitable<Status> RepairRunner::carry_out(Context context, std::shared_ptr<RepairRun> run) {
  const RepairPlan& plan = run->plan;
  const sight::Wait wait{context, sight::WaitKind::kJoin};
  sight::BackgroundTask module{
      context,
      kRepair,
      {static_cast<double>(plan.targets.front().bytes), static_cast<double>(plan.helpers.size()),
       static_cast<double>(plan.choice.slice_bytes)}};
  run->span = module.context().trace.span_id;
  const Status status = co_await call_and_commit(module.context(), run);
  proto::Timing& timing = *run->record.mutable_timing();
  timing.set_seconds(plan.plan_seconds + to_seconds(runtime_.clock.now() - run->began));
  timing.set_plan_seconds(plan.plan_seconds);
  end(*run, status);
  // No suspension since end(): whoever waited for it sees the entries as this leaves them.
  if (!status.ok()) note_failure(*run, status);
  co_return module.finish(status);
}

asio::awaitable<Status> RepairRunner::call_and_commit(Context context, std::shared_ptr<RepairRun> run) {
  const Context limited = context.with_deadline(runtime_.clock.now() + attempt_limit(run->plan));
  KINTSUGI_CO_ASSIGN(const proto::RepairChunkResponse response, co_await call_root(limited, run));
  run->built = true;
  *run->record.mutable_timing() = response.timing();
  *run->record.mutable_servers() = response.servers();
  sight::Module module{context, kCommit};
  const Status committed = co_await commit(module.context(), *run);
  co_return module.finish(committed);
}

asio::awaitable<Result<proto::RepairChunkResponse>> RepairRunner::call_root(Context context,
                                                                            std::shared_ptr<RepairRun> run) {
  const RepairTarget& root = run->plan.targets.front();
  if (!run->dead) {
    tasks_.spawn(carry_call(context, run));
    {
      const sight::Wait wait(context, sight::WaitKind::kJoin);
      while (!run->answer && !run->dead)
        co_await run->changed.wait();
    }
    if (run->answer) co_return std::move(*run->answer);
    if (run->dead != root.destination) tasks_.spawn(give_up(root.address, ending(run->plan.request)));
  }
  co_return Status{Code::kUnavailable, fmt::format("server {} was declared dead", view_.name_of(run->dead))}
      .blame(run->dead);
}

asio::awaitable<void> RepairRunner::carry_call(Context context, std::shared_ptr<RepairRun> run) {
  const sight::Task task{context, kCallRoot};
  if (runtime::is_armed(runtime_.faults))
    (void)co_await runtime_.faults->pass(runtime::FaultPoint::kStartRepair);
  auto answer = co_await view_.execute(task.context(), run->plan.targets.front().address, run->plan.request);
  runtime::do_or_lose(runtime_.faults, {runtime::FaultPoint::kComplete, "repair", "repair_manager.repair"},
                      [run, answer = std::move(answer)] {
                        run->answer = answer;
                        run->changed.notify_all();
                      });
}

asio::awaitable<void> RepairRunner::give_up(runtime::Endpoint root, proto::EndRepairRequest request) {
  const Context limited = Context{}.with_deadline(runtime_.clock.now() + kGiveUpLimit);
  co_await view_.give_up(limited, std::move(root), std::move(request));
}

void RepairRunner::end_attempts_with(ServerId dead) {
  for (const auto& [chunk, run] : running_) {
    // A chunk that was built is committed all the same: the commit tells what has become of its place.
    if (run->answer || !needs(run->plan, dead)) continue;
    run->dead = dead;
    run->changed.notify_all();
  }
}

asio::awaitable<Status> RepairRunner::commit(Context context, RepairRun& run) {
  const RepairPlan& plan = run.plan;
  Status failure;
  std::vector<QueueEntry> failed;
  for (size_t i = 0; i < plan.targets.size(); ++i) {
    const RepairTarget& target = plan.targets[i];
    const ChunkId chunk{plan.stripe, target.index};
    if (plan.kind == proto::RepairRecord::REPAIR && view_.fetched(plan.stripe)) {
      const std::optional<StripeView> stripe = view_.stripe(plan.stripe);
      if (stripe && stripe->chunks[target.index].available)
        append_detail(run.record,
                      describe_available(run, target, stripe->chunks[target.index].server, view_));
    }
    const Context limited = context.with_deadline(runtime_.clock.now() + kCommitLimit);
    const Status committed =
        co_await view_.commit_repair(limited, chunk, target.old_server, target.destination);
    if (committed.ok()) {
      ++done_;
      bytes_repaired_ += target.bytes;
      continue;
    }
    failed.push_back(run.entries[i]);
    const Status why = committed.with_context(fmt::format("commit of chunk {}", chunk));
    if (failure.ok()) {
      failure = why;
    } else {
      append_detail(run.record, why.to_string());
    }
  }
  if (plan.targets.size() > 1 && !failed.empty())
    append_detail(run.record, fmt::format("{} of {} chunks committed", plan.targets.size() - failed.size(),
                                          plan.targets.size()));
  run.entries = std::move(failed);
  co_return failure;
}

void RepairRunner::end(RepairRun& run, const Status& status) {
  const RepairPlan& plan = run.plan;
  if (status.ok()) {
    log::info("{} of {} in {:.3f} s ({}, {} helpers)", proto::kind_name(plan.kind),
              describe_targets(plan, view_), run.record.timing().seconds(),
              proto::shape_name(plan.choice.shape), plan.helpers.size());
  } else {
    ++failed_;
    append_detail(run.record, status.to_string());
    log::warning("{} of {}, attempt {}: {}", proto::kind_name(plan.kind), describe_targets(plan, view_),
                 run.record.attempt(), run.record.detail());
  }
  const auto ended = running_.find({plan.stripe, plan.targets.front().index})->second;
  runtime::do_or_lose(runtime_.faults, {runtime::FaultPoint::kRelease, "repair slots"}, [this, ended] {
    planner_.give_back_slots(ended->plan);
    std::erase(with_slots_, ended);
  });
  for (const RepairTarget& target : plan.targets)
    running_.erase({plan.stripe, target.index});
  --jobs_;
  ++attempts_ended_;
  if (plan.kind == proto::RepairRecord::MOVE) {
    --running_moves_;
    const auto from = moves_from_.find(plan.targets.front().old_server);
    if (--from->second == 0) moves_from_.erase(from);
  }
  // Requesters get this record, as the history does.
  run.record.set_outcome(status.ok() ? proto::RepairRecord::DONE : proto::RepairRecord::FAILED);
  records_.end(run.record);
  run.ended = status;
  ended_.notify_all();
  for (ChunkId chunk : run.lost_again) {
    // A repair that failed is tried again anyway, a move is not.
    const bool failed = std::ranges::find(run.entries, chunk, &QueueEntry::chunk) != run.entries.end();
    if (!failed || plan.kind == proto::RepairRecord::MOVE)
      scheduler_.chunk_lost(chunk, "lost while it was repaired or moved", /*delay_ok=*/true);
  }
  scheduler_.wake();
}

void RepairRunner::note_failure(RepairRun& run, const Status& status) {
  const TimePoint now = runtime_.clock.now();
  // Helpers and destinations did their part of what was built, and cannot have chunks of a stripe that was deleted.
  const bool deleted = view_.fetched(run.plan.stripe) && !view_.stripe(run.plan.stripe);
  const Blame blame = run.built || deleted ? Blame{} : find_blame(status, run.plan);
  if (blame.helper && status.code() == Code::kNotFound)
    view_.report_lost({run.plan.stripe, blame.helper_chunk}, blame.helper, status.message());
  std::vector<ServerId> guilty;
  if (blame.helper) guilty.push_back(blame.helper);
  if (blame.other_destination) guilty.push_back(blame.other_destination);
  if (blame.destination) guilty.push_back(run.plan.targets.front().destination);
  for (ServerId server : guilty)
    planner_.suspect(server);
  if (status.code() == Code::kNoSpace) {
    if (blame.destination) planner_.full(run.plan.targets.front().destination);
    if (blame.other_destination) planner_.full(blame.other_destination);
  }

  for (QueueEntry& entry : run.entries) {
    for (ServerId server : guilty)
      if (std::ranges::find(entry.excluded, server) == entry.excluded.end()) entry.excluded.push_back(server);
    if (blame.unknown_helper) ++entry.rotation;
    const uint32_t in_a_row = entry.attempt++ % options_.attempts_in_a_row;
    if (in_a_row + 1 < options_.attempts_in_a_row) {
      entry.due = now + kFirstBackoff * (1 << (2 * in_a_row));
    } else {
      entry.excluded.clear();
      entry.lost_at = now;  // moves it behind the chunks of the same urgency, which had no turn yet
      entry.due = now + kTailBackoff;
    }
  }
}

}  // namespace kintsugi::repair_manager
