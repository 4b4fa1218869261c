#include "repair_manager/manager/requested_repairs.h"

#include <algorithm>
#include <set>

#include "common/base/assert.h"
#include "monitoring/sight/module.h"

namespace kintsugi::repair_manager {

RequestedRepairs::RequestedRepairs(const runtime::Runtime& runtime, uint32_t attempts, const Parts& parts)
    : runtime_(runtime),
      attempts_(attempts),
      view_(parts.view),
      planner_(parts.planner),
      queue_(parts.queue),
      runner_(parts.runner),
      scheduler_(parts.scheduler),
      left_(runtime),
      tasks_(runtime) {}

RequestedRepairs::~RequestedRepairs() {
  KINTSUGI_ASSERT(callers_ == 0);
}

void RequestedRepairs::request_stop() {
  tasks_.request_stop();
}

asio::awaitable<void> RequestedRepairs::join() {
  co_await tasks_.join();
  while (callers_ > 0)
    co_await left_.wait();
}

asio::awaitable<Result<proto::RepairRecord>> RequestedRepairs::run(Context context, WantedRepair wanted) {
  const std::set<uint32_t> distinct(wanted.indexes.begin(), wanted.indexes.end());
  if (wanted.indexes.empty() || wanted.indexes.size() > kMaxWanted ||
      distinct.size() != wanted.indexes.size())
    co_return Status{Code::kInvalidArgument, fmt::format("one to {} different chunks", kMaxWanted)};
  ++callers_;
  const Context limited = context.with_deadline(runtime_.clock.now() + kMaxWait);
  Result<proto::RepairRecord> result = co_await run_attempts(limited, wanted);
  --callers_;
  left_.notify_all();
  co_return result;
}

asio::awaitable<Result<proto::RepairRecord>> RequestedRepairs::run_attempts(Context context,
                                                                            WantedRepair& wanted) {
  static const auto kRequested = std::make_shared<const std::string>("requested");
  std::vector<QueueEntry> entries;
  for (uint32_t index : wanted.indexes)
    entries.push_back(
        {.chunk = {wanted.stripe, index}, .lost_at = runtime_.clock.now(), .reason = kRequested});
  Status last{Code::kCancelled, "the repair manager is stopping"};
  for (uint32_t i = 0; i < attempts_ && !tasks_.stopping(); ++i) {
    std::shared_ptr<const RepairRun> run = running(wanted);
    if (run) {
      last = co_await wait_for_end(context, run);
    } else {
      KINTSUGI_CO_ASSIGN(const std::shared_ptr<RepairRun> begun,
                         co_await begin_when_free(context, wanted, entries));
      if (!begun) continue;  // another repair of the chunk has begun meanwhile
      Queued queued = take_queued(entries);
      last = co_await runner_.carry_out(context, begun);
      if (!last.ok()) give_back(std::move(queued), begun->entries);
      entries = begun->entries;
      run = begun;
    }
    if (run->ended && run->ended->ok()) {
      for (const RepairTarget& done : run->plan.targets) {
        std::erase(wanted.indexes, done.index);
        std::erase_if(entries, [&](const QueueEntry& entry) { return entry.chunk.index == done.index; });
      }
      if (wanted.indexes.empty()) co_return run->record;
      continue;
    }
    wanted.indexes.clear();
    for (const QueueEntry& entry : entries)
      wanted.indexes.push_back(entry.chunk.index);
    if (runtime_.clock.now() >= context.deadline) break;
    const sight::Wait wait(context, sight::WaitKind::kTimer);
    if (i + 1 < attempts_) co_await tasks_.sleep_until(std::min(entries.front().due, context.deadline));
  }
  co_return last;
}

std::shared_ptr<const RepairRun> RequestedRepairs::running(const WantedRepair& wanted) const {
  for (uint32_t index : wanted.indexes)
    if (std::shared_ptr<const RepairRun> run = runner_.find({wanted.stripe, index})) return run;
  return nullptr;
}

asio::awaitable<Status> RequestedRepairs::wait_for_end(Context context,
                                                       std::shared_ptr<const RepairRun> run) {
  const sight::Wait wait(context, sight::WaitKind::kSibling, 0, run->span);
  while (!run->ended) {
    const bool notified = co_await runner_.wait_for_an_end(context.deadline);
    if (!notified) co_return Status{Code::kDeadlineExceeded, "waiting for the running repair of the chunk"};
  }
  if (run->ended->ok()) co_return Status{};
  co_return Status{Code::kUnavailable, "the running repair of the chunk failed"};
}

asio::awaitable<Result<std::shared_ptr<RepairRun>>> RequestedRepairs::begin_when_free(
    Context context, const WantedRepair& wanted, const std::vector<QueueEntry>& entries) {
  for (;;) {
    if (tasks_.stopping()) co_return Status{Code::kCancelled, "the repair manager is stopping"};
    if (running(wanted)) co_return std::shared_ptr<RepairRun>{};
    std::vector<StripeId> needed{wanted.stripe};
    KINTSUGI_CO_TRY(co_await view_.fetch(context, std::move(needed)));
    if (running(wanted)) co_return std::shared_ptr<RepairRun>{};
    Result<RepairPlan> planned = co_await plan_when_free(context, wanted, entries);
    if (planned) co_return begin(std::move(*planned), entries);
    const bool may_have_changed = planned.error().code() == Code::kLimitExceeded;
    if (!may_have_changed || runtime_.clock.now() >= context.deadline) co_return planned.error();
  }
}

asio::awaitable<Result<RepairPlan>> RequestedRepairs::plan_when_free(Context context,
                                                                     const WantedRepair& wanted,
                                                                     const std::vector<QueueEntry>& entries) {
  std::optional<sight::Wait> wait;
  uint64_t waits_for = 0;  // the task that `wait` names
  for (;;) {
    planner_.refresh();
    Result<RepairPlan> planned =
        planner_.repair(runner_.plan_request(entries), wanted.wishes, /*requested=*/true);
    const bool busy = !planned && planned.error().code() == Code::kLimitExceeded;
    if (!busy || runtime_.clock.now() >= context.deadline) co_return planned;
    // One wait for as long as the same repair is the one with slots for longest. Reads have slots, too, and are no tasks
    // of this process: while only they do, each look is a wait of its own.
    if (const uint64_t holder = runner_.longest_holder(); !wait || holder != waits_for || holder == 0) {
      wait.reset();
      wait.emplace(context, sight::WaitKind::kResource, runtime::named_target(context, "repair slots"),
                   holder, 0, std::source_location::current());
      waits_for = holder;
    }
    const TimePoint again = runtime_.clock.now() + kBusyRetry;
    co_await runner_.wait_for_an_end(std::min(context.deadline, again));
    // What is known of the stripe has grown old, or somebody else repairs the chunk.
    if (tasks_.stopping() || running(wanted) || !view_.fetched(wanted.stripe)) co_return planned;
  }
}

std::shared_ptr<RepairRun> RequestedRepairs::begin(RepairPlan plan, const std::vector<QueueEntry>& entries) {
  std::vector<QueueEntry> of_targets;
  for (const RepairTarget& target : plan.targets)
    of_targets.push_back(*std::ranges::find(entries, ChunkId{plan.stripe, target.index}, &QueueEntry::chunk));
  std::set<uint32_t> healthy;
  if (const std::optional<StripeView> stripe = view_.stripe(plan.stripe))
    for (const RepairTarget& target : plan.targets)
      if (stripe->chunks[target.index].available) healthy.insert(target.index);
  return runner_.begin(std::move(plan), std::move(of_targets), std::move(healthy));
}

RequestedRepairs::Queued RequestedRepairs::take_queued(const std::vector<QueueEntry>& entries) {
  Queued queued;
  for (const QueueEntry& entry : entries)
    if (std::optional<QueueEntry> waiting = queue_.take(entry.chunk))
      queued.emplace(entry.chunk, std::move(*waiting));
  return queued;
}

void RequestedRepairs::give_back(Queued queued, const std::vector<QueueEntry>& failed) {
  for (const QueueEntry& entry : failed) {
    const auto waiting = queued.find(entry.chunk);
    if (waiting == queued.end()) {
      // Reports about the chunk that came while the repair ran were left to that repair, so they are made up for now.
      // The scheduler ignores a chunk that is healthy.
      scheduler_.chunk_lost(entry.chunk, "lost while a requested repair of it ran", /*delay_ok=*/true);
      continue;
    }
    waiting->second.attempt = entry.attempt;
    waiting->second.excluded = entry.excluded;
    waiting->second.due = entry.due;
    queue_.add(std::move(waiting->second), runtime_.clock.now());
  }
  scheduler_.wake();
}

}  // namespace kintsugi::repair_manager
