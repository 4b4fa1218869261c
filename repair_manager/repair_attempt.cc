// How one repair runs: plan, call, commit, and what is learnt from a failure.
#include <algorithm>

#include "common/base/assert.h"
#include "common/log/log.h"
#include "erasure/policy.h"
#include "monitoring/sight/module.h"
#include "repair_manager/repair_manager.h"

// GCC 12 pairs the inlined operator new of a coroutine frame with asio's operator delete and calls them
// mismatched.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace kintsugi::repair_manager {
namespace {

constexpr sight::Site kRepair{"repair_manager.repair", {"chunk_bytes", "helpers", "slice_bytes"}};
constexpr sight::Site kCommit{"repair_manager.commit"};
constexpr Duration kCapabilityLife = 1h;
constexpr Duration kCommitLimit = 30s;

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Result<RepairPlan> RepairManager::plan(const QueueEntry& entry, const PlanWishes& wishes, bool requested) {
  const TimePoint began = runtime_.clock.now();
  const std::optional<StripeView> stripe = view_.stripe(entry.chunk.stripe);
  if (!stripe) return Status{Code::kNotFound, fmt::format("no such stripe: {}", entry.chunk.stripe)};
  if (entry.chunk.index >= stripe->chunks.size())
    return Status{Code::kNotFound, fmt::format("no such chunk: {}", entry.chunk)};
  if (stripe->chunks[entry.chunk.index].available && !requested)
    return Status{Code::kConflict, "it is available again"};
  KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(stripe->policy));
  if (stripe->chunks.size() != policy.chunks())
    return Status{Code::kInternal, fmt::format("stripe {} has {} chunks", stripe->id, stripe->chunks.size())};

  std::vector<ServerId> receiving;
  for (auto at = running_.lower_bound({stripe->id, 0});
       at != running_.end() && at->first.stripe == stripe->id; ++at)
    receiving.push_back(ServerId{at->second.destination()});
  const SelectionInput input{.stripe = *stripe,
                             .lost = {entry.chunk.index},
                             .policy = policy,
                             .servers = servers_,
                             .slots = slots_,
                             .excluded = entry.excluded,
                             .suspects = suspects_,
                             .receiving = receiving,
                             .rotation = entry.rotation};
  const RepairId id{runtime_.random.next() | 1};
  KINTSUGI_ASSIGN(RepairPlan plan, make_plan(input, wishes, options_.link, view_,
                                             runtime_.clock.wall_now() + kCapabilityLife, id));
  plan.plan_seconds = seconds(runtime_.clock.now() - began);
  return plan;
}

void RepairManager::begin(const RepairPlan& plan, const QueueEntry& entry) {
  slots_.acquire(plan.helpers, plan.targets.front().destination, plan.targets.front().bytes);
  proto::RepairRecord record;
  record.set_repair_id(plan.id.value);
  record.set_stripe_id(plan.stripe.value);
  record.set_index(plan.targets.front().index);
  record.set_policy(plan.policy);
  record.set_shape(std::string(shape_name(plan.choice.shape)));
  record.set_slice_bytes(plan.choice.slice_bytes);
  record.set_chunk_bytes(plan.targets.front().bytes);
  record.set_destination(plan.targets.front().destination.value);
  for (ServerId helper : plan.helpers)
    record.add_helpers(helper.value);
  record.set_outcome("running");
  record.set_started_ns(runtime_.clock.wall_now().time_since_epoch().count());
  record.set_attempt(entry.attempt + 1);
  if (entry.reason) record.set_reason(*entry.reason);
  record.set_queued_seconds(seconds(runtime_.clock.now() - entry.lost_at));
  const bool is_new = running_.emplace(plan.chunk(), std::move(record)).second;
  KINTSUGI_ASSERT(is_new);
}

Duration RepairManager::attempt_limit(const RepairPlan& plan) const {
  const std::chrono::duration<double> estimated{plan.choice.seconds * options_.deadline_factor};
  return std::max(options_.min_deadline, std::chrono::duration_cast<Duration>(estimated));
}

asio::awaitable<Status> RepairManager::attempt(Context context, const RepairPlan& plan) {
  sight::Module module{
      context,
      kRepair,
      {static_cast<double>(plan.targets.front().bytes), static_cast<double>(plan.helpers.size()),
       static_cast<double>(plan.choice.slice_bytes)}};
  const TimePoint began = runtime_.clock.now();
  proto::RepairRecord record = running_.at(plan.chunk());
  const Status status = co_await call_and_commit(module.context(), plan, record);
  record.mutable_timing()->set_seconds(plan.plan_seconds + seconds(runtime_.clock.now() - began));
  record.mutable_timing()->set_plan_seconds(plan.plan_seconds);
  end(plan, std::move(record), status);
  co_return module.finish(status);
}

asio::awaitable<Status> RepairManager::call_and_commit(Context context, const RepairPlan& plan,
                                                       proto::RepairRecord& record) {
  const Context limited = context.with_deadline(runtime_.clock.now() + attempt_limit(plan));
  KINTSUGI_CO_ASSIGN(const proto::RepairChunkResponse response,
                     co_await view_.execute(limited, plan.targets.front().address, plan.request));
  *record.mutable_timing() = response.timing();
  *record.mutable_servers() = response.servers();

  sight::Module module{context, kCommit};
  const Context committing = module.context().with_deadline(runtime_.clock.now() + kCommitLimit);
  const Status committed = co_await view_.commit_repair(
      committing, plan.chunk(), plan.targets.front().old_server, plan.targets.front().destination);
  co_return module.finish(committed.with_context("commit"));
}

void RepairManager::end(const RepairPlan& plan, proto::RepairRecord record, const Status& status) {
  if (status.ok()) {
    ++done_;
    bytes_repaired_ += plan.targets.front().bytes;
    log::info("repaired chunk {} onto server {} in {:.3f} s ({}, {} helpers)", plan.chunk(),
              plan.targets.front().destination, record.timing().seconds(), record.shape(),
              plan.helpers.size());
  } else {
    ++failed_;
    record.set_detail(status.to_string());
    log::warning("repair of chunk {} onto server {}, attempt {}: {}", plan.chunk(),
                 plan.targets.front().destination, record.attempt(), status.to_string());
  }
  record.set_outcome(status.ok() ? "done" : "failed");
  slots_.release(plan.helpers, plan.targets.front().destination, plan.targets.front().bytes);
  running_.erase(plan.chunk());
  history_.push_front(std::move(record));
  if (history_.size() > options_.history) history_.pop_back();
  ended_.notify_all();
  wake();
}

TimePoint RepairManager::note_failure(QueueEntry& entry, const RepairPlan& plan, const Status& status) {
  const TimePoint now = runtime_.clock.now();
  const Blame blame = find_blame(status, plan);
  const auto exclude = [&](ServerId server) {
    if (std::find(entry.excluded.begin(), entry.excluded.end(), server) == entry.excluded.end())
      entry.excluded.push_back(server);
    suspect_until_[server] = now + options_.suspicion;
  };
  if (blame.helper) {
    exclude(blame.helper);
    if (status.code() == Code::kNotFound)
      view_.report_lost({plan.stripe, blame.helper_chunk}, blame.helper, status.message());
  }
  if (blame.destination) exclude(plan.targets.front().destination);
  if (blame.unknown_helper) ++entry.rotation;

  const uint32_t in_a_row = entry.attempt++ % options_.attempts_in_a_row;
  if (in_a_row + 1 < options_.attempts_in_a_row) return now + options_.first_backoff * (1 << (2 * in_a_row));
  entry.excluded.clear();
  entry.lost_at = now;  // the tail
  return now + options_.tail_backoff;
}

asio::awaitable<void> RepairManager::run_queued(QueueEntry entry, RepairPlan plan) {
  const Context context = recorder_ != nullptr ? recorder_->root_context() : Context{};
  const Status status = co_await attempt(context, plan);
  if (status.ok() || tasks_.stopping()) co_return;
  entry.due = note_failure(entry, plan, status);
  queue_.add(std::move(entry), runtime_.clock.now());
  wake();
}

asio::awaitable<Result<proto::RepairRecord>> RepairManager::run(Context context, ChunkId chunk, Shape shape,
                                                                uint64_t slice_bytes, ServerId destination) {
  ++callers_;
  static const auto kRequested = std::make_shared<const std::string>("requested");
  QueueEntry entry{.chunk = chunk, .lost_at = runtime_.clock.now(), .reason = kRequested};
  const PlanWishes wishes{.shape = shape, .slice_bytes = slice_bytes, .destination = destination};
  const Context limited = context.with_deadline(runtime_.clock.now() + kMaxRunWait);
  Result<proto::RepairRecord> result = co_await run_attempts(limited, entry, wishes);
  --callers_;
  ended_.notify_all();
  co_return result;
}

asio::awaitable<Result<proto::RepairRecord>> RepairManager::run_attempts(Context context, QueueEntry& entry,
                                                                         const PlanWishes& wishes) {
  Status last{Code::kCancelled, "the repair manager is stopping"};
  for (uint32_t i = 0; i < options_.attempts_in_a_row && !tasks_.stopping(); ++i) {
    uint64_t repair_id = 0;
    if (const auto running = running_.find(entry.chunk); running != running_.end()) {
      repair_id = running->second.repair_id();
      last = co_await wait_for_end(context, entry.chunk, repair_id);
    } else {
      KINTSUGI_CO_ASSIGN(std::optional<RepairPlan> plan, co_await plan_when_free(context, entry, wishes));
      if (!plan) continue;  // another repair of it began meanwhile
      repair_id = plan->id.value;
      last = co_await attempt_requested(context, entry, *plan);
    }
    const proto::RepairRecord* record = find_record(repair_id);
    if (record != nullptr && record->outcome() == "done") co_return *record;
    if (runtime_.clock.now() >= context.deadline) break;
    if (i + 1 < options_.attempts_in_a_row)
      co_await tasks_.sleep_until(std::min(entry.due, context.deadline));
  }
  co_return last;
}

asio::awaitable<Status> RepairManager::wait_for_end(Context context, ChunkId chunk, uint64_t repair_id) {
  while (running_.contains(chunk) && running_.at(chunk).repair_id() == repair_id) {
    const bool notified = co_await ended_.wait_until(context.deadline);
    if (!notified) co_return Status{Code::kDeadlineExceeded, "waiting for the running repair of the chunk"};
  }
  co_return Status{Code::kUnavailable,
                   "the running repair of the chunk failed"};  // unless its record says done
}

asio::awaitable<Status> RepairManager::attempt_requested(Context context, QueueEntry& entry,
                                                         const RepairPlan& plan) {
  // What waited in the queue is this repair now; it goes back there if this fails.
  std::optional<QueueEntry> queued = queue_.take(entry.chunk);
  begin(plan, entry);
  const Status status = co_await attempt(context, plan);
  if (status.ok()) co_return status;
  entry.due = note_failure(entry, plan, status);
  if (queued) {
    queued->attempt = entry.attempt;
    queued->excluded = entry.excluded;
    queued->due = entry.due;
    queue_.add(std::move(*queued), runtime_.clock.now());
    wake();
  } else {
    // What was told about the chunk while this ran was left to this repair.
    chunk_lost(entry.chunk, "lost while a requested repair of it ran", /*delay_ok=*/true);
  }
  co_return status;
}

asio::awaitable<Result<std::optional<RepairPlan>>> RepairManager::plan_when_free(Context context,
                                                                                 const QueueEntry& entry,
                                                                                 const PlanWishes& wishes) {
  for (;;) {
    if (tasks_.stopping()) co_return Status{Code::kCancelled, "the repair manager is stopping"};
    if (running_.contains(entry.chunk)) co_return std::optional<RepairPlan>{};
    std::vector<StripeId> needed{entry.chunk.stripe};
    KINTSUGI_CO_TRY(co_await view_.prepare(std::move(needed)));
    if (running_.contains(entry.chunk)) co_return std::optional<RepairPlan>{};
    refresh_servers();
    Result<RepairPlan> planned = plan(entry, wishes, /*requested=*/true);
    if (planned) co_return std::optional<RepairPlan>{std::move(*planned)};
    if (planned.error().code() != Code::kLimitExceeded) co_return planned.error();
    const TimePoint again = runtime_.clock.now() + kBusyRetry;
    co_await ended_.wait_until(std::min(context.deadline, again));
    if (runtime_.clock.now() >= context.deadline) co_return planned.error();
  }
}

const proto::RepairRecord* RepairManager::find_record(uint64_t repair_id) const {
  for (const proto::RepairRecord& record : history_)
    if (record.repair_id() == repair_id) return &record;
  return nullptr;
}

}  // namespace kintsugi::repair_manager
