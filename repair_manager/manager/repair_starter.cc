#include "repair_manager/manager/repair_starter.h"

#include <algorithm>

#include "common/log/log.h"

namespace kintsugi::repair_manager {

RepairStarter::RepairStarter(const runtime::Runtime& runtime, const Options& options, const ClusterView& view,
                             RepairPlanner& planner, RepairQueue& queue, RepairRunner& runner)
    : runtime_(runtime),
      options_(options),
      view_(view),
      planner_(planner),
      queue_(queue),
      runner_(runner),
      window_(options, planner, view) {}

RepairStarter::Turn RepairStarter::take_turn(size_t coming) {
  Turn turn;
  const size_t ready = queue_.ready();
  if (ready == 0 || runner_.running() >= options_.max_running) return turn;
  planner_.refresh();
  const bool chains = options_.shape == Shape::AUTO || options_.shape == Shape::CHAIN;
  const bool joint = options_.schedule == Schedule::kJoint && chains && ready >= kJointThreshold;
  const size_t limit = joint ? window_.entries() : kCandidatesPerTurn;
  if (joint && !worth_scheduling(limit, coming)) return turn;
  // Copies: entries leave the queue as they begin.
  std::vector<QueueEntry> candidates;
  candidates.reserve(std::min(ready, limit));
  queue_.for_each_ready([&](const QueueEntry& entry) {
    candidates.push_back(entry);
    return candidates.size() < limit;
  });
  if (joint) {
    start_jointly(std::move(candidates), coming, turn);
  } else {
    start_greedily(candidates, turn);
  }
  if (ready >= limit && queue_.ready() < ready) turn.more = true;
  ready_left_ = queue_.ready();
  ended_then_ = runner_.ended();
  again_at_ = runtime_.clock.now() + kScheduleAgain;
  return turn;
}

bool RepairStarter::worth_scheduling(size_t window, size_t coming) const {
  // Chunks that are still being looked up belong into the same schedule.
  if (coming > 0 && queue_.ready() < window) return false;
  const uint64_t ended = runner_.ended() - ended_then_;
  return queue_.ready() > ready_left_ || ended * kScheduleShare >= runner_.running() ||
         runtime_.clock.now() >= again_at_;
}

void RepairStarter::start_jointly(std::vector<QueueEntry> candidates, size_t coming, Turn& turn) {
  const TimePoint now = runtime_.clock.now();
  window_.trim(now);
  bool busy = false;
  const size_t beyond = queue_.ready() - candidates.size() + coming;
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
      const bool fits = !runner_.runs(from->chunk) && view_.fetched(stripe) && window_.fits(*from, now) &&
                        queue_.ready_of(stripe).size() == 1;
      (fits ? jointly : alone).push_back(std::move(*from));
    }
    if (jointly.size() < kJointThreshold) {
      alone.insert(alone.end(), jointly.begin(), jointly.end());
    } else {
      const size_t waiting = jointly.size() + (last ? beyond : 0);
      for (const JointStart& start : window_.schedule(jointly, waiting))
        try_start(start.entry, &start.wishes, turn);
      // Repairs without room now wait for it, but never behind some that are less urgent.
      const bool waits = last && runner_.running() > 0;
      size_t doubted = 0;
      for (QueueEntry& entry : jointly) {
        if (waits && (now < entry.due + kJointPatience || doubted == kMaxDoubted)) continue;
        if (!queue_.is_ready(entry.chunk)) continue;
        // A repair that the schedule cannot place even on an idle cluster would block those behind it for ever: it is
        // started by itself.
        doubted += waits;
        if (!waits || !window_.could_place(entry.chunk, waiting)) alone.push_back(std::move(entry));
      }
    }
    busy |= start_greedily(alone, turn);
  }
}

bool RepairStarter::start_greedily(const std::vector<QueueEntry>& candidates, Turn& turn) {
  size_t busy = 0;
  bool repair_busy = false;
  for (const QueueEntry& entry : candidates) {
    if (runner_.running() >= options_.max_running || busy >= kMaxBusyCandidates) break;
    if (entry.kind == WorkKind::kMove && repair_busy) break;
    // A candidate may have begun with another one of its stripe, or be blocked by now.
    if (!queue_.is_ready(entry.chunk) || try_start(entry, nullptr, turn) != Started::kBusy) continue;
    ++busy;
    repair_busy |= entry.kind == WorkKind::kRepair;
  }
  return busy > 0;
}

RepairStarter::Started RepairStarter::try_start(const QueueEntry& entry, const PlanWishes* wishes,
                                                Turn& turn) {
  if (!view_.fetched(entry.chunk.stripe)) {
    turn.more = true;  // it became ready after this turn's stripes were fetched
    return Started::kBusy;
  }
  if (runner_.runs(entry.chunk)) {
    if (entry.kind == WorkKind::kRepair) runner_.note_lost_again(entry.chunk);
    queue_.take(entry.chunk);
    return Started::kNever;
  }
  if (runner_.running() >= options_.max_running) return Started::kBusy;
  Result<RepairPlan> planned = plan(entry, wishes);
  if (planned) {
    std::vector<QueueEntry> entries;
    for (const RepairTarget& target : planned->targets)
      entries.push_back(*queue_.take({planned->stripe, target.index}));
    turn.begun.push_back(runner_.begin(std::move(*planned), std::move(entries)));
    return Started::kYes;
  }
  const Status& why = planned.error();
  switch (why.code()) {
    case Code::kLimitExceeded: return Started::kBusy;
    case Code::kUnavailable:
      if (entry.kind == WorkKind::kMove) {
        queue_.take(entry.chunk);
        turn.lost.push_back(entry.chunk);
      } else {
        block(entry, why);
      }
      return Started::kNever;
    case Code::kNoSpace:
      // A move for the sake of balance is told again for as long as it makes sense. A drain's waits and is seen to
      // wait.
      if (entry.kind == WorkKind::kMove && entry.moving_to) {
        queue_.take(entry.chunk);
      } else {
        block(entry, why);
      }
      return Started::kNever;
    default:
      log::info("chunk {} needs no repair: {}", entry.chunk, why.to_string());
      queue_.take(entry.chunk);
      return Started::kNever;
  }
}

void RepairStarter::block(const QueueEntry& entry, const Status& why) {
  const auto lacking =
      why.code() == Code::kNoSpace ? RepairQueue::Lacking::kDestination : RepairQueue::Lacking::kHelpers;
  const bool first_time = queue_.block(entry.chunk, lacking, runtime_.clock.now());
  if (first_time) log::warning("chunk {} cannot be repaired now: {}", entry.chunk, why.to_string());
}

PlanRequest RepairStarter::request_for(std::span<const QueueEntry> entries) const {
  PlanRequest request = runner_.plan_request(entries);
  request.urgent = std::ranges::any_of(entries, is_without_spare);
  return request;
}

Result<RepairPlan> RepairStarter::plan(const QueueEntry& entry, const PlanWishes* wishes) const {
  if (entry.kind == WorkKind::kMove) return plan_move(entry);
  std::vector<QueueEntry> together{entry};
  if (wishes != nullptr) {
    Result<RepairPlan> plan = planner_.repair(request_for(together), *wishes, /*requested=*/false);
    if (plan || plan.error().code() == Code::kLimitExceeded) return plan;
  }
  for (const QueueEntry* other : queue_.ready_of(entry.chunk.stripe))
    if (other->chunk != entry.chunk && !runner_.runs(other->chunk)) together.push_back(*other);
  if (together.size() > 1) {
    Result<RepairPlan> plan = planner_.repair(request_for(together), default_wishes(), /*requested=*/false);
    if (plan || plan.error().code() == Code::kLimitExceeded) return plan;
    together.resize(1);  // not all of them are available now; perhaps this one is
  }
  return planner_.repair(request_for(together), default_wishes(), /*requested=*/false);
}

Result<RepairPlan> RepairStarter::plan_move(const QueueEntry& entry) const {
  // Repairs that are to come find half of the server's slots free.
  const uint32_t most = std::max(1u, options_.max_per_server / 2);
  if (runner_.moves_from(entry.moving_from) >= most || runner_.running_moves() >= kMaxMoves)
    return Status{Code::kLimitExceeded, "enough moves are under way"};
  const PlanRequest request = runner_.plan_request({&entry, 1});
  PlanWishes wanted = default_wishes();
  wanted.destination = entry.moving_to;
  wanted.keep_racks = true;
  Result<RepairPlan> plan = planner_.move(request, wanted, entry.moving_from);
  if (plan || !entry.moving_to || plan.error().code() == Code::kLimitExceeded) return plan;
  wanted.destination = {};
  return planner_.move(request, wanted, entry.moving_from);
}

}  // namespace kintsugi::repair_manager
