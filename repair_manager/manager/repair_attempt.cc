// How one repair or move runs: call, commit, and what is learnt from a failure.
#include <algorithm>

#include "common/base/assert.h"
#include "common/log/log.h"
#include "common/proto/names.h"
#include "monitoring/sight/module.h"
#include "repair_manager/manager/repair_manager.h"

// GCC 12 pairs the inlined operator new of a coroutine frame with asio's operator delete and calls them
// mismatched.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace kintsugi::repair_manager {
namespace {

constexpr sight::Site kRepair{"repair_manager.repair", {"chunk_bytes", "helpers", "slice_bytes"}};
constexpr sight::Site kCommit{"repair_manager.commit"};
constexpr Duration kCommitLimit = 30s;
// A link that so many repairs share is not yet slow beyond what the deadline's factor allows for.
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

std::string describe_targets(const RepairPlan& plan) {
  std::string text;
  for (const RepairTarget& target : plan.targets)
    text += fmt::format("{}chunk {} onto server {}", text.empty() ? "" : ", ",
                        ChunkId{plan.stripe, target.index}, target.destination);
  return text;
}

}  // namespace

std::string RepairManager::describe_available(const Job& job, size_t target, ServerId server) {
  const RepairTarget& made = job.plan.targets[target];
  const ChunkId chunk{job.plan.stripe, made.index};
  if (!job.healthy.contains(made.index))
    return fmt::format("chunk {} was available on server {} again", chunk, server);
  return fmt::format("chunk {} was not lost: rebuilt from the others, it moves from server {} to server {}",
                     chunk, server, made.destination);
}

void RepairManager::begin(Job& job) {
  const RepairPlan& plan = job.plan;
  SlotTable& slots = planner_.slots();
  slots.acquire(plan.helpers, plan.targets.front().destination, plan.targets.front().bytes,
                plan.helper_shares);
  for (const RepairTarget& target : std::span(plan.targets).subspan(1))
    slots.add_destination(target.destination, target.bytes);
  const QueueEntry& entry = job.entries.front();
  proto::RepairRecord record = describe(plan, runtime_.clock.wall_now());
  record.set_attempt(entry.attempt + 1);
  if (entry.reason) record.set_reason(*entry.reason);
  record.set_queued_seconds(to_seconds(runtime_.clock.now() - entry.lost_at));
  records_.begin(std::move(record));
  for (const RepairTarget& target : plan.targets) {
    const bool is_new = running_.emplace(ChunkId{plan.stripe, target.index}, plan.id).second;
    KINTSUGI_ASSERT(is_new);
  }
  ++jobs_;
  if (plan.kind == proto::RepairRecord::MOVE) {
    ++running_moves_;
    ++moving_from_[plan.targets.front().old_server];
  }
  job.began = runtime_.clock.now();
}

Duration RepairManager::attempt_limit(const RepairPlan& plan) const {
  uint32_t busiest = planner_.slots().load(plan.targets.front().destination).repairs();
  for (ServerId helper : plan.helpers)
    busiest = std::max(busiest, planner_.slots().load(helper).repairs());
  const double shared = std::max(1.0, busiest / kSharers);
  const std::chrono::duration<double> estimated{plan.choice.seconds * options_.deadline_factor * shared};
  return std::clamp(std::chrono::duration_cast<Duration>(
                        std::min<std::chrono::duration<double>>(estimated, options_.max_deadline)),
                    options_.min_deadline, std::max(options_.min_deadline, options_.max_deadline));
}

asio::awaitable<void> RepairManager::run_queued(Job job) {
  const Context context = recorder_ != nullptr ? recorder_->root_context() : Context{};
  const Status status = co_await attempt(context, job);
  if (!status.ok() && !tasks_.stopping()) put_back(job);
}

asio::awaitable<Status> RepairManager::attempt(Context context, Job& job) {
  const RepairPlan& plan = job.plan;
  sight::Module module{
      context,
      kRepair,
      {static_cast<double>(plan.targets.front().bytes), static_cast<double>(plan.helpers.size()),
       static_cast<double>(plan.choice.slice_bytes)}};
  proto::RepairRecord record = records_.running(plan.id);
  const Status status = co_await call_and_commit(module.context(), job, record);
  record.mutable_timing()->set_seconds(plan.plan_seconds + to_seconds(runtime_.clock.now() - job.began));
  record.mutable_timing()->set_plan_seconds(plan.plan_seconds);
  end(job, std::move(record), status);
  if (!status.ok()) note_failure(job, status);
  co_return module.finish(status);
}

asio::awaitable<Status> RepairManager::call_and_commit(Context context, Job& job,
                                                       proto::RepairRecord& record) {
  const Context limited = context.with_deadline(runtime_.clock.now() + attempt_limit(job.plan));
  KINTSUGI_CO_ASSIGN(const proto::RepairChunkResponse response, co_await call_root(limited, job.plan));
  job.built = true;
  *record.mutable_timing() = response.timing();
  *record.mutable_servers() = response.servers();
  sight::Module module{context, kCommit};
  const Status committed = co_await commit(module.context(), job, record);
  co_return module.finish(committed);
}

asio::awaitable<Result<proto::RepairChunkResponse>> RepairManager::call_root(Context context,
                                                                             const RepairPlan& plan) {
  const runtime::Endpoint& root = plan.targets.front().address;
  const auto call = std::make_shared<Call>(runtime_);
  call->plan = &plan;
  calls_.emplace(plan.id.value, call);
  tasks_.spawn(carry(context, root, plan.request, call));
  while (!call->answer && !call->dead)
    co_await call->changed.wait();
  calls_.erase(plan.id.value);
  if (call->answer) co_return std::move(*call->answer);
  if (call->dead != plan.targets.front().destination) tasks_.spawn(give_up(root, ending(plan.request)));
  co_return Status{Code::kUnavailable, fmt::format("server {} was declared dead", call->dead)}.blame(
      call->dead);
}

asio::awaitable<void> RepairManager::carry(Context context, runtime::Endpoint root,
                                           proto::RepairChunkRequest request, std::shared_ptr<Call> call) {
  call->answer = co_await view_.execute(context, std::move(root), std::move(request));
  call->changed.notify_all();
}

asio::awaitable<void> RepairManager::give_up(runtime::Endpoint root, proto::EndRepairRequest request) {
  const Context limited = Context{}.with_deadline(runtime_.clock.now() + kGiveUpLimit);
  co_await view_.give_up(limited, std::move(root), std::move(request));
}

void RepairManager::end_attempts_with(ServerId dead) {
  planner_.servers_changed();
  for (const auto& [id, call] : calls_) {
    const RepairPlan& plan = *call->plan;
    const bool needed =
        std::ranges::find(plan.helpers, dead) != plan.helpers.end() ||
        std::ranges::find(plan.targets, dead, &RepairTarget::destination) != plan.targets.end();
    if (!needed) continue;
    call->dead = dead;
    call->changed.notify_all();
  }
}

asio::awaitable<Status> RepairManager::commit(Context context, Job& job, proto::RepairRecord& record) {
  const RepairPlan& plan = job.plan;
  Status failure;
  std::vector<QueueEntry> failed;
  for (size_t i = 0; i < plan.targets.size(); ++i) {
    const RepairTarget& target = plan.targets[i];
    const ChunkId chunk{plan.stripe, target.index};
    if (plan.kind == proto::RepairRecord::REPAIR && view_.prepared(plan.stripe)) {
      const std::optional<StripeView> stripe = view_.stripe(plan.stripe);
      if (stripe && stripe->chunks[target.index].available)
        append_detail(record, describe_available(job, i, stripe->chunks[target.index].server));
    }
    const Context limited = context.with_deadline(runtime_.clock.now() + kCommitLimit);
    const Status committed =
        co_await view_.commit_repair(limited, chunk, target.old_server, target.destination);
    if (committed.ok()) {
      ++done_;
      bytes_repaired_ += target.bytes;
      continue;
    }
    failed.push_back(job.entries[i]);
    const Status why = committed.with_context(fmt::format("commit of chunk {}", chunk));
    if (failure.ok()) {
      failure = why;
    } else {
      append_detail(record, why.to_string());
    }
  }
  if (plan.targets.size() > 1 && !failed.empty())
    append_detail(record, fmt::format("{} of {} chunks committed", plan.targets.size() - failed.size(),
                                      plan.targets.size()));
  job.entries = std::move(failed);
  co_return failure;
}

void RepairManager::end(const Job& job, proto::RepairRecord record, const Status& status) {
  const RepairPlan& plan = job.plan;
  if (status.ok()) {
    log::info("{} of {} in {:.3f} s ({}, {} helpers)", proto::kind_name(plan.kind), describe_targets(plan),
              record.timing().seconds(), proto::shape_name(record.shape()), plan.helpers.size());
  } else {
    ++failed_;
    append_detail(record, status.to_string());
    log::warning("{} of {}, attempt {}: {}", proto::kind_name(plan.kind), describe_targets(plan),
                 record.attempt(), record.detail());
  }
  planner_.slots().remove_helpers(plan.helpers, plan.helper_shares);
  for (const RepairTarget& target : plan.targets) {
    planner_.slots().remove_destination(target.destination, target.bytes);
    const ChunkId chunk{plan.stripe, target.index};
    running_.erase(chunk);
    // A repair that failed is tried again anyway.
    const bool failed = std::ranges::find(job.entries, chunk, &QueueEntry::chunk) != job.entries.end();
    if (told_.erase(chunk) > 0 && (!failed || plan.kind == proto::RepairRecord::MOVE))
      chunk_lost(chunk, "lost while it was repaired or moved", /*delay_ok=*/true);
  }
  --jobs_;
  ++ended_since_schedule_;
  if (plan.kind == proto::RepairRecord::MOVE) {
    --running_moves_;
    const auto from = moving_from_.find(plan.targets.front().old_server);
    if (--from->second == 0) moving_from_.erase(from);
  }
  records_.end(std::move(record), status.ok());
  ended_.notify_all();
  wake();
}

void RepairManager::note_failure(Job& job, const Status& status) {
  const TimePoint now = runtime_.clock.now();
  const Blame blame = job.built ? Blame{} : find_blame(status, job.plan);
  if (blame.helper && status.code() == Code::kNotFound)
    view_.report_lost({job.plan.stripe, blame.helper_chunk}, blame.helper, status.message());
  std::vector<ServerId> guilty;
  if (blame.helper) guilty.push_back(blame.helper);
  if (blame.other_destination) guilty.push_back(blame.other_destination);
  if (blame.destination) guilty.push_back(job.plan.targets.front().destination);
  for (ServerId server : guilty)
    planner_.suspect(server);

  for (QueueEntry& entry : job.entries) {
    for (ServerId server : guilty)
      if (std::ranges::find(entry.excluded, server) == entry.excluded.end()) entry.excluded.push_back(server);
    if (blame.unknown_helper) ++entry.rotation;
    const uint32_t in_a_row = entry.attempt++ % options_.attempts_in_a_row;
    if (in_a_row + 1 < options_.attempts_in_a_row) {
      entry.due = now + options_.first_backoff * (1 << (2 * in_a_row));
    } else {
      entry.excluded.clear();
      entry.lost_at = now;  // the tail
      entry.due = now + options_.tail_backoff;
    }
  }
}

void RepairManager::put_back(Job& job) {
  for (QueueEntry& entry : job.entries)
    if (entry.kind == WorkKind::kRepair) queue_.add(std::move(entry), runtime_.clock.now());
  wake();
}

}  // namespace kintsugi::repair_manager
