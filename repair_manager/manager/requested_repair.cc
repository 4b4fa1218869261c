// Repairs that somebody asked for and waits for.
#include <algorithm>
#include <set>

#include "common/base/assert.h"
#include "repair_manager/manager/repair_manager.h"

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // see repair_attempt.cc

namespace kintsugi::repair_manager {

asio::awaitable<Result<proto::RepairRecord>> RepairManager::run(Context context, WantedRepair wanted) {
  const std::set<uint32_t> distinct(wanted.indexes.begin(), wanted.indexes.end());
  if (wanted.indexes.empty() || wanted.indexes.size() > kMaxWanted ||
      distinct.size() != wanted.indexes.size())
    co_return Status{Code::kInvalidArgument, fmt::format("one to {} different chunks", kMaxWanted)};
  ++callers_;
  const Context limited = context.with_deadline(runtime_.clock.now() + kMaxRunWait);
  Result<proto::RepairRecord> result = co_await run_attempts(limited, wanted);
  --callers_;
  ended_.notify_all();
  co_return result;
}

asio::awaitable<Result<proto::RepairRecord>> RepairManager::run_attempts(Context context,
                                                                         WantedRepair& wanted) {
  static const auto kRequested = std::make_shared<const std::string>("requested");
  std::vector<QueueEntry> entries;
  for (uint32_t index : wanted.indexes)
    entries.push_back(
        {.chunk = {wanted.stripe, index}, .lost_at = runtime_.clock.now(), .reason = kRequested});
  Status last{Code::kCancelled, "the repair manager is stopping"};
  for (uint32_t i = 0; i < options_.attempts_in_a_row && !tasks_.stopping(); ++i) {
    std::optional<RepairId> id = running_repair(wanted);
    if (id) {
      last = co_await wait_for_end(context, *id);
    } else {
      KINTSUGI_CO_ASSIGN(std::optional<Job> job, co_await plan_when_free(context, wanted, entries));
      if (!job) continue;  // another repair began meanwhile
      id = job->plan.id;
      last = co_await attempt_requested(context, *job);
      entries = std::move(job->entries);
    }
    const proto::RepairRecord* record = records_.ended(*id);
    if (record != nullptr && record->outcome() == proto::RepairRecord::DONE) {
      for (uint32_t done : record->indexes()) {
        std::erase(wanted.indexes, done);
        std::erase_if(entries, [done](const QueueEntry& entry) { return entry.chunk.index == done; });
      }
      if (wanted.indexes.empty()) co_return *record;
      continue;
    }
    wanted.indexes.clear();
    for (const QueueEntry& entry : entries)
      wanted.indexes.push_back(entry.chunk.index);
    if (runtime_.clock.now() >= context.deadline) break;
    if (i + 1 < options_.attempts_in_a_row)
      co_await tasks_.sleep_until(std::min(entries.front().due, context.deadline));
  }
  co_return last;
}

std::optional<RepairId> RepairManager::running_repair(const WantedRepair& wanted) const {
  for (uint32_t index : wanted.indexes)
    if (const auto running = running_.find({wanted.stripe, index}); running != running_.end())
      return running->second;
  return std::nullopt;
}

asio::awaitable<Status> RepairManager::wait_for_end(Context context, RepairId id) {
  while (records_.all_running().contains(id.value)) {
    const bool notified = co_await ended_.wait_until(context.deadline);
    if (!notified) co_return Status{Code::kDeadlineExceeded, "waiting for the running repair of the chunk"};
  }
  co_return Status{Code::kUnavailable,
                   "the running repair of the chunk failed"};  // unless its record says done
}

asio::awaitable<Status> RepairManager::attempt_requested(Context context, Job& job) {
  // What waited in the queue is this repair now; it goes back there if this fails.
  std::map<ChunkId, QueueEntry> queued;
  for (const QueueEntry& entry : job.entries)
    if (std::optional<QueueEntry> waiting = queue_.take(entry.chunk))
      queued.emplace(entry.chunk, std::move(*waiting));
  if (const std::optional<StripeView> stripe = view_.stripe(job.plan.stripe))
    for (const RepairTarget& target : job.plan.targets)
      if (stripe->chunks[target.index].available) job.healthy.insert(target.index);
  begin(job);
  const Status status = co_await attempt(context, job);
  if (status.ok()) co_return status;
  for (const QueueEntry& entry : job.entries) {
    const auto waiting = queued.find(entry.chunk);
    if (waiting == queued.end()) {
      // What was told about the chunk while this ran was left to this repair.
      chunk_lost(entry.chunk, "lost while a requested repair of it ran", /*delay_ok=*/true);
      continue;
    }
    waiting->second.attempt = entry.attempt;
    waiting->second.excluded = entry.excluded;
    waiting->second.due = entry.due;
    queue_.add(std::move(waiting->second), runtime_.clock.now());
  }
  wake();
  co_return status;
}

asio::awaitable<Result<std::optional<RepairManager::Job>>> RepairManager::plan_when_free(
    Context context, const WantedRepair& wanted, const std::vector<QueueEntry>& entries) {
  for (;;) {
    if (tasks_.stopping()) co_return Status{Code::kCancelled, "the repair manager is stopping"};
    if (running_repair(wanted)) co_return std::optional<Job>{};
    std::vector<StripeId> needed{wanted.stripe};
    KINTSUGI_CO_TRY(co_await view_.prepare(std::move(needed)));
    if (running_repair(wanted)) co_return std::optional<Job>{};
    planner_.refresh();
    const PlanRequest request = plan_request(entries);
    Result<RepairPlan> planned = planner_.repair(request, wanted.wishes, /*requested=*/true);
    if (planned) {
      Job job{.plan = std::move(*planned)};
      for (const RepairTarget& target : job.plan.targets)
        for (const QueueEntry& entry : entries)
          if (entry.chunk.index == target.index) job.entries.push_back(entry);
      co_return std::optional<Job>{std::move(job)};
    }
    if (planned.error().code() != Code::kLimitExceeded) co_return planned.error();
    const TimePoint again = runtime_.clock.now() + kBusyRetry;
    co_await ended_.wait_until(std::min(context.deadline, again));
    if (runtime_.clock.now() >= context.deadline) co_return planned.error();
  }
}

}  // namespace kintsugi::repair_manager
