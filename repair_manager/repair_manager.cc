// Events, the scheduler and what people ask about. How one repair runs is in repair_attempt.cc.
#include "repair_manager/repair_manager.h"

#include <algorithm>
#include <set>

#include "common/base/assert.h"
#include "common/log/log.h"
#include "erasure/code.h"
#include "erasure/policy.h"

namespace kintsugi::repair_manager {
namespace {

/// How many more losses the stripe survives.
Result<int32_t> spare_chunks(const StripeView& stripe) {
  KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(stripe.policy));
  if (stripe.chunks.size() != policy.chunks())
    return Status{Code::kInternal, fmt::format("stripe {} has {} chunks", stripe.id, stripe.chunks.size())};
  std::vector<uint32_t> available;
  for (const ChunkView& chunk : stripe.chunks)
    if (chunk.available || is_empty_data_chunk(chunk, policy.k)) available.push_back(chunk.index);
  return erasure::Code::get(policy)->spare(available);
}

}  // namespace

RepairManager::RepairManager(const runtime::Runtime& runtime, Options options, ClusterView& view,
                             sight::Recorder* recorder)
    : runtime_(runtime),
      options_(options),
      view_(view),
      recorder_(recorder),
      tasks_(runtime),
      wake_(runtime),
      ended_(runtime),
      planner_(runtime, options_, view),
      records_(options.history),
      reads_(runtime, planner_, records_),
      window_(options_, planner_, view) {}

RepairManager::~RepairManager() {
  KINTSUGI_ASSERT(tasks_.running() == 0 && callers_ == 0);
}

void RepairManager::start() {
  tasks_.spawn(schedule());
}

asio::awaitable<void> RepairManager::stop() {
  tasks_.request_stop();
  wake();
  ended_.notify_all();
  co_await tasks_.join();
  while (callers_ > 0)
    co_await ended_.wait();
}

void RepairManager::wake() {
  changed_ = true;
  wake_.notify_all();
}

void RepairManager::chunk_lost(ChunkId chunk, std::string why, bool delay_ok) {
  const TimePoint now = runtime_.clock.now();
  intake_.push_back({.chunks = {chunk},
                     .like = {.lost_at = now,
                              .due = delay_ok ? now + options_.delay : now,
                              .reason = std::make_shared<const std::string>(std::move(why))}});
  wake();
}

void RepairManager::server_dead(ServerId server, std::vector<ChunkId> chunks, Duration ago) {
  const TimePoint lost_at = runtime_.clock.now() - ago;
  log::info("server {} is dead: {} chunks to repair", server, chunks.size());
  std::reverse(chunks.begin(), chunks.end());
  auto reason = std::make_shared<const std::string>(fmt::format("server {} dead", server));
  intake_.push_back({.chunks = std::move(chunks),
                     .like = {.lost_at = lost_at,
                              .due = lost_at + options_.delay,
                              .dead_server = server,
                              .reason = std::move(reason)}});
  planner_.servers_changed();
  wake();
}

void RepairManager::server_returned(ServerId server) {
  std::erase_if(intake_, [server](const Intake& intake) { return intake.like.dead_server == server; });
  const size_t cancelled = queue_.server_returned(server);
  if (cancelled > 0) log::info("server {} is back: {} repairs cancelled", server, cancelled);
  queue_.release_aside();
  planner_.forgive(server);
  planner_.servers_changed();
  wake();
}

void RepairManager::stripe_deleted(StripeId stripe) {
  queue_.stripe_deleted(stripe);
  wake();
}

void RepairManager::move_wanted(ChunkId chunk, ServerId from, std::string why, ServerId to) {
  const TimePoint now = runtime_.clock.now();
  intake_.push_back({.chunks = {chunk},
                     .like = {.kind = WorkKind::kMove,
                              .lost_at = now,
                              .due = now,
                              .moving_from = from,
                              .moving_to = to,
                              .reason = std::make_shared<const std::string>(std::move(why))}});
  wake();
}

void RepairManager::moves_cancelled(ServerId from) {
  std::erase_if(intake_, [from](const Intake& intake) { return intake.like.moving_from == from; });
  const size_t cancelled = queue_.moves_cancelled(from);
  if (cancelled > 0) log::info("{} moves away from server {} cancelled", cancelled, from);
  wake();
}

size_t RepairManager::moves() const {
  const auto is_move = [](const Intake& intake) { return intake.like.kind == WorkKind::kMove; };
  return queue_.moves() + running_moves_ +
         static_cast<size_t>(std::count_if(intake_.begin(), intake_.end(), is_move));
}

void RepairManager::keep_only(const std::function<bool(StripeId)>& mine) {
  for (Intake& intake : intake_)
    std::erase_if(intake.chunks, [&](ChunkId chunk) { return !mine(chunk.stripe); });
  queue_.keep_only(mine);
  wake();
}

void RepairManager::set_limits(Duration delay, uint32_t max_per_server) {
  options_.delay = delay;
  options_.max_per_server = max_per_server;
  planner_.slots().set_limit(max_per_server);
}

Result<proto::PlanReadResponse> RepairManager::plan_read(const proto::PlanReadRequest& request) {
  Result<proto::PlanReadResponse> response = reads_.plan(request);
  if (!response) return response;
  queue_.heat_up({StripeId{request.stripe_id()}, request.index()});
  if (reads_.open() == 1) wake();  // whose lease is now the next to end
  return response;
}

Status RepairManager::finish_read(const proto::FinishReadRequest& request) {
  const Status status = reads_.finish(request);
  if (queue_.ready() > 0) wake();
  return status;
}

std::vector<StripeId> RepairManager::stripes_to_prepare() const {
  std::set<StripeId> stripes;
  const auto add = [&](StripeId stripe) {
    if (!view_.prepared(stripe)) stripes.insert(stripe);
  };
  size_t taken = 0;
  for (const Intake& intake : intake_)
    for (auto chunk = intake.chunks.rbegin(); chunk != intake.chunks.rend() && taken < kIntakePerTurn;
         ++chunk, ++taken)
      add(chunk->stripe);
  size_t candidates = 0;
  queue_.for_each_ready([&](const QueueEntry& entry) {
    add(entry.chunk.stripe);
    return ++candidates < JointWindow::kMaxEntries;
  });
  return {stripes.begin(), stripes.end()};
}

asio::awaitable<void> RepairManager::schedule() {
  while (!tasks_.stopping()) {
    changed_ = false;
    const TimePoint now = runtime_.clock.now();
    queue_.advance(now);
    if (std::vector<StripeId> stripes = stripes_to_prepare(); !stripes.empty()) {
      const Status prepared = co_await view_.prepare(std::move(stripes));
      if (tasks_.stopping()) co_return;
      if (!prepared.ok()) {
        co_await wake_.wait_until(runtime_.clock.now() + kBusyRetry);
        continue;
      }
    }
    take_in();
    retry_aside(now);
    queue_.advance(now);
    start_ready();
    const TimePoint next_read = reads_.expire(now);
    if (changed_) {
      co_await asio::post(runtime_.executor, asio::use_awaitable);  // others first
      continue;
    }
    TimePoint next = std::min(queue_.advance(now), next_read);
    if (queue_.aside() > 0) next = std::min(next, aside_retry_at_);
    if (queue_.ready() > 0) next = std::min(next, now + kBusyRetry);
    co_await wake_.wait_until(next);
  }
}

void RepairManager::take_in() {
  for (size_t taken = 0; !intake_.empty() && taken < kIntakePerTurn; ++taken) {
    Intake& intake = intake_.front();
    if (!intake.chunks.empty()) {
      if (!view_.prepared(intake.chunks.back().stripe)) break;  // it came meanwhile: next turn
      add(intake.chunks.back(), intake);
      intake.chunks.pop_back();
    }
    if (intake.chunks.empty()) intake_.pop_front();
  }
  if (!intake_.empty()) changed_ = true;
}

void RepairManager::add(ChunkId chunk, const Intake& intake) {
  if (running_.contains(chunk)) return;  // it ends in the queue or in a new place
  const std::optional<StripeView> stripe = view_.stripe(chunk.stripe);
  if (!stripe || chunk.index >= stripe->chunks.size()) return;
  const ChunkView& view = stripe->chunks[chunk.index];
  QueueEntry entry = intake.like;
  entry.chunk = chunk;
  entry.heat = view.heat;
  if (entry.kind == WorkKind::kMove) {
    if (!view.available || view.server != entry.moving_from) return;
  } else {
    if (view.available) return;
    const Result<int32_t> spare = spare_chunks(*stripe);
    if (!spare) {
      log::error("chunk {} cannot be repaired: {}", chunk, spare.error().to_string());
      return;
    }
    entry.spare = *spare;
    if (entry.spare <= RepairQueue::kUrgentSpare) entry.due = entry.lost_at;
  }
  if (!queue_.add(std::move(entry), runtime_.clock.now()))
    log::error("repair queue is full ({}): chunk {} is left to the next block report", queue_.size(), chunk);
}

void RepairManager::retry_aside(TimePoint now) {
  if (queue_.aside() == 0 || now < aside_retry_at_) return;
  aside_retry_at_ = now + std::max<Duration>(options_.aside_retry, kAsideCost * queue_.aside());
  queue_.release_aside();
}

void RepairManager::start_ready() {
  const bool joint = options_.schedule == Schedule::kJoint && queue_.ready() >= options_.joint_threshold;
  const size_t limit = joint ? JointWindow::kMaxEntries : kCandidatesPerTurn;
  std::vector<QueueEntry> candidates;
  queue_.for_each_ready([&](const QueueEntry& entry) {
    candidates.push_back(entry);
    return candidates.size() < limit;
  });
  if (candidates.empty()) return;
  planner_.refresh();
  const bool may_be_more = candidates.size() == limit;
  const size_t before = queue_.ready();
  if (joint) {
    start_jointly(std::move(candidates));
  } else {
    start_greedily(candidates);
  }
  if (may_be_more && queue_.ready() < before) changed_ = true;
}

void RepairManager::start_jointly(std::vector<QueueEntry> candidates) {
  const TimePoint now = runtime_.clock.now();
  const size_t beyond = queue_.ready() - candidates.size();
  for (auto from = candidates.begin(); from != candidates.end();) {
    // One degree of urgency after another.
    const auto to = std::find_if(from, candidates.end(), [&](const QueueEntry& entry) {
      return entry.kind != from->kind || entry.spare != from->spare;
    });
    const bool last = to == candidates.end();
    std::vector<QueueEntry> jointly, alone;
    for (; from != to; ++from) {
      const StripeId stripe = from->chunk.stripe;
      const bool takes = !running_.contains(from->chunk) && view_.prepared(stripe) &&
                         window_.takes(*from, now) && queue_.ready_of(stripe).size() == 1;
      (takes ? jointly : alone).push_back(std::move(*from));
    }
    if (jointly.size() < options_.joint_threshold) {
      alone.insert(alone.end(), jointly.begin(), jointly.end());
    } else {
      for (const JointStart& start : window_.schedule(jointly, jointly.size() + (last ? beyond : 0)))
        try_start(start.entry, &start.wishes);
      // What has no room now waits for it; but nobody waits behind those who are less urgent.
      const bool waits = last && jobs_ > 0;
      for (QueueEntry& entry : jointly)
        if (!waits && queue_.contains(entry.chunk)) alone.push_back(std::move(entry));
    }
    start_greedily(alone);
  }
}

void RepairManager::start_greedily(const std::vector<QueueEntry>& candidates) {
  size_t busy = 0;
  for (const QueueEntry& entry : candidates) {
    if (jobs_ >= options_.max_running || busy >= kMaxBusyCandidates) return;
    // Those of the same stripe may have begun with another.
    if (queue_.contains(entry.chunk) && try_start(entry) == Started::kBusy) ++busy;
  }
}

RepairManager::Started RepairManager::try_start(const QueueEntry& entry, const PlanWishes* wishes) {
  if (!view_.prepared(entry.chunk.stripe)) {
    changed_ = true;  // it became ready meanwhile: next turn
    return Started::kBusy;
  }
  if (running_.contains(entry.chunk)) {
    queue_.take(entry.chunk);
    return Started::kNever;
  }
  if (jobs_ >= options_.max_running) return Started::kBusy;
  std::vector<QueueEntry> together{entry};
  Result<RepairPlan> planned = plan_entry(entry, wishes, together);
  if (planned) {
    Job job{.plan = std::move(*planned)};
    for (const RepairTarget& target : job.plan.targets)
      job.entries.push_back(*queue_.take({job.plan.stripe, target.index}));
    begin(job);
    tasks_.spawn(run_queued(std::move(job)));
    return Started::kYes;
  }
  const Status& why = planned.error();
  switch (why.code()) {
    case Code::kLimitExceeded:
      return Started::kBusy;
    case Code::kUnavailable:
      if (entry.kind == WorkKind::kMove) {
        queue_.take(entry.chunk);
        chunk_lost(entry.chunk, "lost while it was to be moved", /*delay_ok=*/true);
        return Started::kNever;
      }
      [[fallthrough]];
    case Code::kNoSpace:
      if (queue_.aside() == 0) aside_retry_at_ = runtime_.clock.now() + options_.aside_retry;
      if (queue_.put_aside(entry.chunk, why.code() == Code::kNoSpace ? RepairQueue::Aside::kNoDestination
                                                                     : RepairQueue::Aside::kUnrepairable))
        log::warning("chunk {} cannot be repaired now: {}", entry.chunk, why.to_string());
      return Started::kNever;
    default:
      log::info("chunk {} needs no repair: {}", entry.chunk, why.to_string());
      queue_.take(entry.chunk);
      return Started::kNever;
  }
}

Result<RepairPlan> RepairManager::plan_entry(const QueueEntry& entry, const PlanWishes* wishes,
                                             std::vector<QueueEntry>& together) {
  if (entry.kind == WorkKind::kMove) {
    const auto moving = moving_from_.find(entry.moving_from);
    const bool busy =
        moving != moving_from_.end() && moving->second >= std::max(1u, options_.max_per_server / 2);
    if (busy || running_moves_ >= options_.max_moves)
      return Status{Code::kLimitExceeded, "enough moves are under way"};
    PlanWishes wanted = default_wishes();
    wanted.destination = entry.moving_to;
    Result<RepairPlan> plan = planner_.move(plan_request(together), wanted, entry.moving_from);
    if (plan || !entry.moving_to || plan.error().code() == Code::kLimitExceeded) return plan;
    wanted.destination = {};
    return planner_.move(plan_request(together), wanted, entry.moving_from);
  }
  if (wishes != nullptr) {
    Result<RepairPlan> plan = planner_.repair(plan_request(together), *wishes, /*requested=*/false);
    if (plan || plan.error().code() == Code::kLimitExceeded) return plan;
  }
  for (QueueEntry& other : queue_.ready_of(entry.chunk.stripe))
    if (other.chunk != entry.chunk && !running_.contains(other.chunk)) together.push_back(std::move(other));
  if (together.size() > 1) {
    Result<RepairPlan> plan = planner_.repair(plan_request(together), default_wishes(), /*requested=*/false);
    if (plan || plan.error().code() == Code::kLimitExceeded) return plan;
    together.resize(1);  // not all can be had now; this one, perhaps
  }
  return planner_.repair(plan_request(together), default_wishes(), /*requested=*/false);
}

PlanRequest RepairManager::plan_request(std::span<const QueueEntry> entries) const {
  PlanRequest request{.stripe = entries.front().chunk.stripe};
  for (const QueueEntry& entry : entries) {
    request.indexes.push_back(entry.chunk.index);
    request.excluded.insert(request.excluded.end(), entry.excluded.begin(), entry.excluded.end());
    request.rotation = std::max(request.rotation, entry.rotation);
  }
  for (auto at = running_.lower_bound({request.stripe, 0});
       at != running_.end() && at->first.stripe == request.stripe; ++at) {
    const proto::RepairRecord& record = records_.running(at->second);
    for (int i = 0; i < record.indexes_size(); ++i)
      if (record.indexes(i) == at->first.index) request.receiving.push_back(ServerId{record.destinations(i)});
  }
  return request;
}

proto::RepairStatusResponse RepairManager::status() const {
  proto::RepairStatusResponse response;
  size_t waiting = queue_.size() - queue_.delayed() - queue_.unrepairable();
  for (const Intake& intake : intake_)
    waiting += intake.chunks.size();
  response.set_queued(waiting);
  response.set_delayed(queue_.delayed());
  response.set_unrepairable(queue_.unrepairable());
  for (const auto& [id, record] : records_.all_running())
    *response.add_running() = record;
  response.set_done(done_);
  response.set_failed(failed_);
  response.set_bytes_repaired(bytes_repaired_);
  response.set_repair_delay_seconds(std::chrono::duration<double>(options_.delay).count());
  return response;
}

}  // namespace kintsugi::repair_manager
