// What begins in a turn of the scheduler: jointly, greedily, or not yet. How it runs is in repair_attempt.cc.
#include <algorithm>

#include "common/log/log.h"
#include "repair_manager/manager/repair_manager.h"

namespace kintsugi::repair_manager {

void RepairManager::start_ready() {
  const size_t ready = queue_.ready();
  if (ready == 0 || jobs_ >= options_.max_running) return;
  planner_.refresh();
  const bool chains = options_.shape == Shape::AUTO || options_.shape == Shape::CHAIN;
  const bool joint = options_.schedule == Schedule::kJoint && chains && ready >= options_.joint_threshold;
  const size_t limit = joint ? window_.entries() : kCandidatesPerTurn;
  if (joint && !worth_scheduling(limit)) return;
  std::vector<QueueEntry> candidates;
  queue_.for_each_ready([&](const QueueEntry& entry) {
    candidates.push_back(entry);
    return candidates.size() < limit;
  });
  if (joint) {
    start_jointly(std::move(candidates));
  } else {
    start_greedily(candidates);
  }
  if (ready >= limit && queue_.ready() < ready) changed_ = true;  // there may be more
  ready_at_schedule_ = queue_.ready();
  ended_since_schedule_ = 0;
  schedule_again_at_ = runtime_.clock.now() + kBusyRetry;
}

bool RepairManager::worth_scheduling(size_t window) const {
  if (!intake_.empty() && queue_.ready() < window) return false;  // what is taken in next belongs to it
  return queue_.ready() > ready_at_schedule_ || ended_since_schedule_ * kScheduleShare >= jobs_ ||
         runtime_.clock.now() >= schedule_again_at_;
}

void RepairManager::start_jointly(std::vector<QueueEntry> candidates) {
  const TimePoint now = runtime_.clock.now();
  window_.trim(now);
  bool busy = false;
  size_t beyond = queue_.ready() - candidates.size();
  for (const Intake& intake : intake_)
    beyond += intake.chunks.size();
  for (auto from = candidates.begin(); from != candidates.end();) {
    // One degree of urgency after another.
    const auto to = std::find_if(from, candidates.end(), [&](const QueueEntry& entry) {
      return entry.kind != from->kind || entry.spare != from->spare;
    });
    const bool last = to == candidates.end();
    // A move that takes the slots for which a repair waits would be in its way.
    if (from->kind == WorkKind::kMove && busy) return;
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
      const size_t waiting = jointly.size() + (last ? beyond : 0);
      for (const JointStart& start : window_.schedule(jointly, waiting))
        try_start(start.entry, &start.wishes);
      // What has no room now waits for it; but nobody waits behind those who are less urgent.
      const bool waits = last && jobs_ > 0;
      size_t doubted = 0;
      for (QueueEntry& entry : jointly) {
        if (!queue_.is_ready(entry.chunk)) continue;
        // What the schedule has no place for, however long it waits, would be in the way of those behind it.
        const bool doubtful = waits && now >= entry.due + kJointPatience && doubted++ < kMaxDoubted;
        if (!waits || (doubtful && !window_.could_place(entry.chunk, waiting)))
          alone.push_back(std::move(entry));
      }
    }
    busy |= start_greedily(alone);
  }
}

bool RepairManager::start_greedily(const std::vector<QueueEntry>& candidates) {
  size_t busy = 0;
  bool repair_busy = false;
  for (const QueueEntry& entry : candidates) {
    if (jobs_ >= options_.max_running || busy >= kMaxBusyCandidates) break;
    if (entry.kind == WorkKind::kMove && repair_busy) break;
    // Those of the same stripe may have begun with another, or be aside by now.
    if (!queue_.is_ready(entry.chunk) || try_start(entry) != Started::kBusy) continue;
    ++busy;
    repair_busy |= entry.kind == WorkKind::kRepair;
  }
  return busy > 0;
}

RepairManager::Started RepairManager::try_start(const QueueEntry& entry, const PlanWishes* wishes) {
  if (!view_.prepared(entry.chunk.stripe)) {
    changed_ = true;  // it became ready meanwhile: next turn
    return Started::kBusy;
  }
  if (running_.contains(entry.chunk)) {
    if (entry.kind == WorkKind::kRepair) told_.insert(entry.chunk);
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
    case Code::kLimitExceeded: return Started::kBusy;
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
    wanted.keep_racks = true;
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

}  // namespace kintsugi::repair_manager
